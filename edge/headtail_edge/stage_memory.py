"""Which stages are open: those used last, as far as they fit the memory that is theirs."""

import threading
from collections import OrderedDict
from collections.abc import Callable

from headtail_models.stage import Stage


class StageMemory:
    """Closes the stages that were used the longest ago when those that are open exceed
    `limit_bytes`; with None, none. Safe to use from any thread.

    A stage that is being used is closed when that use ends. The one used last is never closed, nor
    are pinned ones, whatever they take.
    """

    def __init__(self, limit_bytes: int | None = None) -> None:
        self._limit_bytes = limit_bytes
        self._lock = threading.Lock()
        self._open: OrderedDict[LazyStage, int] = OrderedDict()
        self.closed = 0

    def __repr__(self) -> str:
        return f"<StageMemory {len(self._open)} stages, {self.used_bytes} bytes>"

    @property
    def used_bytes(self) -> int:
        """What the open stages take, by the size of their files."""
        with self._lock:
            return sum(self._open.values())

    def used(self, stage: "LazyStage") -> None:
        """An open stage is about to be used."""
        with self._lock:
            if stage in self._open:
                self._open.move_to_end(stage)
                return
            self._open[stage] = stage.size_bytes
            excess = self._excess()
            for other, size in list(self._open.items()):
                if excess <= 0:
                    break
                if other is not stage and not other.pinned:
                    del self._open[other]
                    other.close()
                    self.closed += 1
                    excess -= size

    def forget(self, stage: "LazyStage") -> None:
        """A stage that is not served any more."""
        with self._lock:
            self._open.pop(stage, None)
            stage.close()

    def _excess(self) -> int:
        return 0 if self._limit_bytes is None else sum(self._open.values()) - self._limit_bytes


class LazyStage:
    """A stage that is opened when it is used, once, whoever comes first."""

    def __init__(
        self,
        open_stage: Callable[[], Stage],
        *,
        memory: StageMemory | None = None,
        size_bytes: int = 0,
        pinned: bool = False,
    ) -> None:
        self._open_stage = open_stage
        self._memory = memory or StageMemory()
        self._lock = threading.Lock()
        self._stage: Stage | None = None
        self.size_bytes = size_bytes
        self.pinned = pinned

    @property
    def is_open(self) -> bool:
        return self._stage is not None

    def get(self) -> Stage:
        """The open stage. Raises what opening it raises, again at each try."""
        stage = self._stage
        if stage is None:
            with self._lock:
                if self._stage is None:
                    self._stage = self._open_stage()
                stage = self._stage
        self._memory.used(self)
        return stage

    def close(self) -> None:
        """Let go of it; who has got it may go on using it."""
        self._stage = None

    def forget(self) -> None:
        """Let go of it for good: it is not served any more."""
        self._memory.forget(self)
