"""What happens to a scheduler."""

from collections.abc import Sequence
from dataclasses import dataclass

from headtail_cloud.core.request import Request
from headtail_cloud.core.task import TaskResult


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestArrived:
    request: Request


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCancelled:
    """Its caller went away. Nothing happens when it has ended already."""

    request_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFinished:
    """`took_s`: what the engine took for it."""

    step_id: int
    results: Sequence[TaskResult]
    took_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFailed:
    """None of the step's tasks was done. `state_lost`: the engine holds no key-value entries any
    more; `begun`: whether it began with them, so that it may be their fault."""

    step_id: int
    message: str
    state_lost: bool = False
    begun: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class TimePassed:
    """`next_timer` is here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainAsked:
    """From now on nothing is accepted; what was, goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStopped:
    """The engine can't run an iteration before about `ready_at`, and holds nothing then. Requests
    may come all the same."""

    ready_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStarted:
    """It can now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineGone:
    """It will never run again: what is here fails."""

    message: str


Event = (
    RequestArrived
    | RequestCancelled
    | StepFinished
    | StepFailed
    | TimePassed
    | DrainAsked
    | EngineStopped
    | EngineStarted
    | EngineGone
)
