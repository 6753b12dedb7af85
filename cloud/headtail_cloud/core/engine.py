"""The seam to whatever computes: ONNX Runtime, a language model, a remote server, a simulator."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from headtail_cloud.core.task import Task, TaskResult
from headtail_cloud.core.work import Work
from headtail_fabric.errors import LocalError


class StateError(LocalError):
    """An engine was asked for the state of a request that it does not hold, or was given state
    that is not its own. Move a request only between engines of the same model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """How much an engine can hold. An engine for tails alone has no blocks."""

    max_batch: int
    """Items of one segment, or sequences, in one iteration."""
    blocks: int = 0
    block_tokens: int = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRef:
    """The key-value entries of a sequence's first `positions` tokens, in those blocks."""

    blocks: tuple[int, ...]
    positions: int


class Engine(Protocol):
    """Runs one iteration at a time. It keeps nothing of a request but what lies in its blocks."""

    def capacity(self) -> Capacity: ...

    def estimate(self, work: Work) -> float:
        """Seconds that it expects, before anything was measured. Linear in each part of `work`."""
        ...

    def step(self, tasks: Sequence[Task]) -> list[TaskResult]:
        """One result for each task, in any order. Raises HeadtailError when all of them failed."""
        ...

    def export(self, state: StateRef) -> bytes:
        """What another engine of the same model needs to go on. Raises StateError."""
        ...

    def import_(self, state: StateRef, data: bytes) -> None:
        """Put exported entries into other blocks. Raises StateError."""
        ...
