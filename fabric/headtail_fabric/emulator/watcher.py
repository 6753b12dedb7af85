"""Waiting for many sockets at once, with time-outs finer than a millisecond."""

import select
import selectors
import socket
from collections.abc import Iterator
from typing import Final, Generic, TypeVar

from headtail_fabric.peer.wakeup import Wakeup

READ: Final = selectors.EVENT_READ
WRITE: Final = selectors.EVENT_WRITE

_MAX_SELECTABLE: Final = 1024

_Owner = TypeVar("_Owner")


class Watcher(Generic[_Owner]):
    """Sockets with the events that are waited for and whose they are. Only `wake` is for any
    thread."""

    def __init__(self) -> None:
        self._selector = selectors.EpollSelector()
        self._wakeup = Wakeup()
        self._selector.register(self._wakeup, READ)
        self._watched: dict[socket.socket, int] = {}

    def watch(self, end: socket.socket, events: int, owner: _Owner) -> None:
        """Wait for these events of a socket from now on; 0 leaves it alone."""
        before = self._watched.get(end, 0)
        if events == before:
            return
        if not events:
            self.leave(end)
            return
        if before:
            self._selector.modify(end, events, owner)
        else:
            self._selector.register(end, events, owner)
        self._watched[end] = events

    def leave(self, end: socket.socket) -> None:
        """Leave a socket alone, as must be done before it is closed."""
        if self._watched.pop(end, 0):
            self._selector.unregister(end)

    def wait(self, seconds: float) -> Iterator[tuple[_Owner, int]]:
        """Sleep until something happens, at most so long; whose sockets are ready, and for what."""
        seconds = max(seconds, 0.0)
        if seconds and self._selector.fileno() < _MAX_SELECTABLE:
            # The selector's own time-outs are whole milliseconds: too coarse for a delay of two.
            select.select([self._selector.fileno()], [], [], seconds)
            seconds = 0.0
        for key, events in self._selector.select(seconds):
            if key.fileobj is self._wakeup:
                self._wakeup.clear()
            else:
                yield key.data, events

    def wake(self) -> None:
        """End the wait."""
        self._wakeup.wake()

    def close(self) -> None:
        self._selector.close()
        self._wakeup.close()
