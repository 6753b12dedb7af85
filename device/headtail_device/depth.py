"""How many frames may be at the edge at once, so that none waits too long behind the others."""

from typing import Final

_SHARE: Final = 0.5
_GAIN: Final = 0.3


class Depth:
    """As many as are answered, one after the other, in half a deadline; one before anything is
    known.

    The time between two answers is counted from when the request was sent, or the one before it was
    answered, whichever is later: what requests in a row cost, whatever of link and edge is slow.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._each_s: float | None = None
        self._answered_at = float("-inf")

    def __repr__(self) -> str:
        return f"Depth(each_s={self._each_s}, most={self._most})"

    def limit(self, deadline_s: float) -> int:
        """For frames with that deadline."""
        if self._each_s is None:
            return 1
        if self._each_s <= 0:
            return self._most
        return max(1, min(self._most, int(_SHARE * deadline_s / self._each_s)))

    def answered(self, *, sent_at: float, now: float) -> None:
        """A request was answered."""
        self._learn(now - max(sent_at, self._answered_at), _GAIN)
        self._answered_at = now

    def overdue(self, *, sent_at: float, now: float) -> None:
        """A request was given up for lack of time: it would have taken at least so long."""
        waited_s = now - max(sent_at, self._answered_at)
        if self._each_s is None or waited_s > self._each_s:
            self._learn(waited_s, 1.0)

    def lost(self) -> None:
        """The connection broke: what was learnt is of another one."""
        self._each_s = None

    def _learn(self, each_s: float, gain: float) -> None:
        known = each_s if self._each_s is None else self._each_s
        self._each_s = known + gain * (each_s - known)
