"""The seam to whatever computes: ONNX Runtime, a language model, a remote server, a simulator."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from headtail_cloud.core.task import Task, TaskResult
from headtail_cloud.core.work import Work
from headtail_fabric.errors import LocalError, ResourceError


class StateError(LocalError):
    """An engine was asked for the state of a request that it does not hold, or was given state
    that is not its own. Move a request only between engines of the same model."""


class EngineFailedError(ResourceError):
    """An engine failed in the middle of an iteration. The requests in it are tried again, each
    alone; see the log for what it failed of."""


class EngineLostError(ResourceError):
    """What an engine ran in has died or hangs, and its memory is gone. It is started again, and
    its requests are tried once more; the log says what happened. If it happens again and again,
    give the process more memory, or look for the request that breaks it."""

    def __init__(self, message: str, *, begun: bool = True) -> None:
        """`begun`: whether it may have died of what it was asked last."""
        super().__init__(message)
        self.begun = begun


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
        """Seconds that it expects, before anything was measured, by the formula of `prices`."""
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
