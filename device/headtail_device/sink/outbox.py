"""Lines that wait to be sent, and when: a core without a socket, a thread or a clock.

add -> next -> delivered | refused
            `-> failed -> next, the same again, later
"""

from collections import deque
from typing import Final

_BATCH_LINES: Final = 100
_FIRST_WAIT_S: Final = 1.0
_LONGEST_WAIT_S: Final = 60.0


class Outbox:
    """At most `limit` lines; what comes to a full one takes the place of the oldest that is not
    under way. `lost` counts those, and what was refused; `sent` what was delivered."""

    def __init__(self, *, limit: int) -> None:
        self._limit = limit
        self._waiting: deque[bytes] = deque()
        self._batch: list[bytes] = []
        self._under_way = False
        self._rest_until = float("-inf")
        self._wait_s = 0.0
        self.sent = 0
        self.lost = 0

    def __len__(self) -> int:
        return len(self._waiting) + len(self._batch)

    def __repr__(self) -> str:
        return f"<Outbox waiting={len(self)} sent={self.sent} lost={self.lost}>"

    def add(self, line: bytes) -> None:
        """A line came."""
        self._waiting.append(line)
        if len(self) > self._limit and len(self._waiting) > 1:
            self._waiting.popleft()
            self.lost += 1

    def due_in_s(self, now: float) -> float | None:
        """How long until something may be sent; None when not before something comes."""
        if self._under_way or not len(self):
            return None
        return max(0.0, self._rest_until - now)

    def next(self, now: float) -> list[bytes] | None:
        """What is to be sent now, if its time has come: up to a hundred lines."""
        if self.due_in_s(now) != 0.0:
            return None
        while self._waiting and len(self._batch) < _BATCH_LINES:
            self._batch.append(self._waiting.popleft())
        self._under_way = True
        return self._batch

    def delivered(self) -> None:
        """The other side has it."""
        self.sent += len(self._batch)
        self._done()

    def refused(self) -> None:
        """The other side will never take it."""
        self.lost += len(self._batch)
        self._done()

    def failed(self, now: float, *, retry_after_s: float = 0.0) -> None:
        """It shall be tried again, not before `retry_after_s`, and later each time."""
        self._under_way = False
        self._wait_s = min(self._wait_s * 2 or _FIRST_WAIT_S, _LONGEST_WAIT_S)
        self._rest_until = now + max(self._wait_s, min(retry_after_s, _LONGEST_WAIT_S))

    def _done(self) -> None:
        self._batch.clear()
        self._under_way = False
        self._wait_s = 0.0
