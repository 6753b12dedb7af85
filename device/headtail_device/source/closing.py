"""What all sources share: any thread may close them, which ends their waiting."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self

from headtail_device.source.frame import Captured
from headtail_fabric.clock import Clock


class ClosingSource(ABC):
    """A `Source` without its name and its frames."""

    def __init__(
        self,
        *,
        deadline_s: float,
        clock: Clock,
        wait: Callable[[float], object] | None = None,
    ) -> None:
        """`wait` sleeps for some seconds; by default until `close` at the latest."""
        self._deadline_s = deadline_s
        self._clock = clock
        self._closing = threading.Event()
        self._wait = wait or self._closing.wait

    @property
    def live(self) -> bool:
        return False

    @property
    def rate_hz(self) -> float | None:
        return None

    @property
    def frame_count(self) -> int | None:
        return None

    @abstractmethod
    def __iter__(self) -> Iterator[Captured]: ...

    def close(self) -> None:
        self._closing.set()

    def _captured_at(self, due_at: float, *, realtime: bool) -> float:
        """The time of capture: now, or with `realtime`, once it has come, the frame's own."""
        now = self._clock.now()
        if not realtime:
            return now
        if due_at > now:
            self._wait(due_at - now)
        return due_at

    def _release(self) -> None:
        """Let go of what is held, once nobody iterates any more."""
        return

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
        self._release()
