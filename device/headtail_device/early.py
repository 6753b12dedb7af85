"""The answer of an exit that was not sure enough, for when nothing better comes in time."""

from dataclasses import dataclass

from headtail_models.task import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyAnswer:
    """What the exit `gate` would have answered."""

    gate: str
    answer: Answer
