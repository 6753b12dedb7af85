"""The loop that both ZeroMQ shells run in their `poll`: send, tell, read, see to timers, sleep."""

import threading
from abc import ABC, abstractmethod
from typing import Generic, Self, TypeVar

from headtail_fabric.clock import Clock
from headtail_fabric.peer.zmq_loop import ZmqLoop

EventT = TypeVar("EventT")


class ZmqPort(ABC, Generic[EventT]):
    """A port worked by whoever calls `poll`. A shell sets `_loop` and fills in the steps."""

    _loop: ZmqLoop

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def close(self, timeout_s: float = 1.0) -> None: ...

    def poll(self, timeout_s: float) -> EventT | None:
        now = self._clock.now()
        until = now + timeout_s
        waited = False
        while True:
            event = self._collect(now)
            self._flush()
            if event is not None:
                return event
            came = self._read(now)
            if must_tend := self._loop.must_tend(now, came=came):
                self._tend(now)
            if not came and not must_tend:  # else to send what came of it before sleeping
                if waited and now >= until:
                    return None
                self._sleep(until - now)
                waited = True
            now = self._clock.now()

    @abstractmethod
    def _collect(self, now: float) -> EventT | None:
        """Take what the core wants sent, and its next event."""

    @abstractmethod
    def _flush(self) -> None:
        """Send what was collected, as far as the socket takes it."""

    @abstractmethod
    def _read(self, now: float) -> int:
        """Take what has come, up to a limit; returns how many messages."""

    @abstractmethod
    def _tend(self, now: float) -> None:
        """See to timers and transport events."""

    @abstractmethod
    def _next_timer(self) -> float | None:
        """When the core wants to be woken."""

    @property
    @abstractmethod
    def _wants_room(self) -> bool:
        """Whether something waits for the socket to take messages again."""

    def _sleep(self, longest_s: float) -> None:
        with self._lock:
            due_at = self._next_timer()
        if due_at is not None:
            longest_s = min(longest_s, due_at - self._clock.now())
        self._loop.wait(longest_s, for_room=self._wants_room)
