"""Where the captured frames and the edge's events meet before the one thread that handles them."""

import threading
from collections import deque
from dataclasses import dataclass, replace
from typing import Final

from headtail_device.source.frame import Captured, Dropped, Frame, Item
from headtail_fabric.clock import Clock
from headtail_fabric.errors import HeadtailError
from headtail_fabric.peer.events import ClientEvent

_READ_AHEAD: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceEnded:
    """No frame will follow; with `error` when the source broke."""

    error: HeadtailError | None = None


Delivery = Item | SourceEnded | ClientEvent


class Inbox:
    """A meeting place for three threads: one puts frames, one puts events, one takes both.

    Frames of a file wait, and their reader with them, until they are taken; reading runs at most
    two frames ahead, and a frame counts as captured when it is taken, for a file waits for nobody.
    Of a live source only the newest frame waits; the one it replaces is taken as Dropped, and so
    are all but one of `every` frames of any source. Events always come first.
    """

    def __init__(self, *, live: bool, clock: Clock, every: int = 1) -> None:
        self._live = live
        self._every = every
        self._clock = clock
        self._changed = threading.Condition()
        self._events: deque[ClientEvent] = deque()
        self._frames: deque[Item | SourceEnded] = deque()
        self._closed = False

    def __repr__(self) -> str:
        return f"<Inbox events={len(self._events)} frames={len(self._frames)}>"

    def put_frame(self, item: Captured) -> bool:
        """Leave a frame; blocks while there is no room. False when nobody will take it."""
        left_out = isinstance(item, Frame) and item.index % self._every > 0
        with self._changed:
            if self._live:
                if not left_out:
                    self._replace_waiting()
            else:
                self._changed.wait_for(lambda: self._closed or len(self._frames) < _READ_AHEAD)
            if self._closed:
                return False
            self._frames.append(_dropped(item, self._every) if left_out else item)
            self._changed.notify_all()
            return True

    def put_event(self, event: ClientEvent) -> None:
        """Leave an event; never blocks (the port's window bounds how many there are)."""
        with self._changed:
            self._events.append(event)
            self._changed.notify_all()

    def end(self, error: HeadtailError | None = None) -> None:
        """Nothing will be put any more; the taker learns of it after the last frame."""
        with self._changed:
            self._frames.append(SourceEnded(error=error))
            self._changed.notify_all()

    def take(self, *, want_frame: bool, timeout_s: float | None) -> Delivery | None:
        """The next event, or if wanted the next frame; None when neither came in time."""
        with self._changed:
            self._changed.wait_for(lambda: self._events or (want_frame and self._frames), timeout_s)
            if self._events:
                return self._events.popleft()
            if not want_frame or not self._frames:
                return None
            item = self._frames.popleft()
            self._changed.notify_all()
        if isinstance(item, Frame) and not self._live:
            return replace(item, captured_at=self._clock.now())
        return item

    def close(self) -> None:
        """Lets whoever waits to put a frame go."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _replace_waiting(self) -> None:
        for at in reversed(range(len(self._frames))):
            waiting = self._frames[at]
            if isinstance(waiting, Frame):
                self._frames[at] = Dropped(index=waiting.index, origin=waiting.origin)
                return


def _dropped(item: Captured, every: int) -> Dropped:
    return Dropped(index=item.index, origin=item.origin, reason=f"not one of every {every}")
