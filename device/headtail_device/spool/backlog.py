"""What waits, what is sent of it, and when: a core without files, sockets or a clock.

    add -> next -> sent -> gone                   answered, or ended for good
                        `-> set_back -> next      the edge could not take it now

Live frames come first. At most one spooled frame is at the edge at a time, and while live frames
come it is followed by a pause, so that the spool has `share` of the time: however slow the link
is, what a spooled frame takes of it is what the pause is reckoned from.
"""

from dataclasses import dataclass
from typing import Final

_QUIET_S: Final = 1.0
"""So long without a live frame, and none is expected."""
_LONGEST_PAUSE_S: Final = 60.0
_FIRST_WAIT_S: Final = 1.0
_TRIES: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """An entry, by what must be known of it without reading it. `captured_at` is a time of this
    run's clock, also for an entry of an earlier run (`inherited`). `sendable` unless the frame's
    bundle is not the one that this run serves: it waits for a run that does."""

    number: int
    index: int
    origin: str
    captured_at: float
    sendable: bool = True
    inherited: bool = False


class Backlog:
    """Entries in the order of their coming. `keep_s`: an entry older than that is worth nothing."""

    def __init__(self, *, share: float, keep_s: float) -> None:
        self._share = share
        self._keep_s = keep_s
        self._queues: dict[bool, dict[int, Waiting]] = {True: {}, False: {}}
        self._sent: tuple[Waiting, float] | None = None
        self._refusals: dict[int, int] = {}
        self._last_live_at = float("-inf")
        self._rest_until = float("-inf")
        self._wait_s = 0.0

    def __repr__(self) -> str:
        sent = self._sent[0].number if self._sent else None
        return f"<Backlog waiting={len(self)} sent={sent} wait_s={self._wait_s:g}>"

    def __len__(self) -> int:
        return sum(len(queue) for queue in self._queues.values())

    def __getitem__(self, number: int) -> Waiting:
        return self._queues[True].get(number) or self._queues[False][number]

    @property
    def hopeful(self) -> bool:
        """Whether something could be sent, and the last try did not fail."""
        return bool(self._queues[True]) and not self._wait_s

    def add(self, waiting: Waiting) -> None:
        """An entry came."""
        self._queues[waiting.sendable][waiting.number] = waiting

    def live_frame(self, now: float) -> None:
        """A frame of the source is on its way."""
        self._last_live_at = now

    def expired(self, now: float) -> tuple[Waiting, ...]:
        """Entries too old; they stay until they are `gone`. The one at the edge is not told."""
        old = []
        for queue in self._queues.values():
            for waiting in queue.values():
                if now < waiting.captured_at + self._keep_s:
                    break
                if self._sent is None or self._sent[0] is not waiting:
                    old.append(waiting)
        return tuple(old)

    def due_in_s(self, now: float) -> float | None:
        """How long until something may be sent, None when there is nothing to send or one is at
        the edge."""
        if self._sent is not None or not self._queues[True]:
            return None
        return max(0.0, self._rest_until - now)

    def next(self, now: float) -> Waiting | None:
        """The oldest, if its time has come."""
        if self.due_in_s(now) != 0.0:
            return None
        return next(iter(self._queues[True].values()))

    def sent(self, number: int, now: float) -> None:
        """It is at the edge."""
        assert self._sent is None, "one at a time"
        self._sent = (self._queues[True][number], now)

    def gone(self, number: int, now: float) -> None:
        """It has its final outcome; if the edge had it, the edge is well."""
        if self._sent is not None and self._sent[0].number == number:
            if now - self._last_live_at <= _QUIET_S:
                pause_s = (now - self._sent[1]) * (1 - self._share) / self._share
                self._rest_until = now + min(pause_s, _LONGEST_PAUSE_S)
            self._wait_s = 0.0
            self._sent = None
        self._refusals.pop(number, None)
        for queue in self._queues.values():
            queue.pop(number, None)

    def set_back(self, now: float, *, wait_s: float = 0.0) -> None:
        """The edge did not answer it: nothing is sent for `wait_s` at least, and longer each
        time."""
        self._sent = None
        self._wait_s = max(wait_s, min(self._wait_s * 2 or _FIRST_WAIT_S, _LONGEST_PAUSE_S))
        self._rest_until = now + self._wait_s

    def refused(self, number: int) -> bool:
        """The edge failed it for good; whether that was so often that it is given up."""
        self._refusals[number] = self._refusals.get(number, 0) + 1
        return self._refusals[number] >= _TRIES

    def recall(self) -> None:
        """The connection is gone, and what was at the edge waits again."""
        self._sent = None

    def welcome(self) -> None:
        """There is a new connection: what held the entries back may be over."""
        self._wait_s = 0.0
        self._rest_until = float("-inf")
