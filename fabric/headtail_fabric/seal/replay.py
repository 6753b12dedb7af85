"""Which sequence numbers have come: a window that slides with the highest one.

The anti-replay service of IPsec (RFC 4303, 3.4.3), which takes each number once, in any order
within the window, and nothing below it. RFC 6479 keeps such a window in fixed words to save the
shift; here the bits are one integer, whose shift is cheap at this size.
"""

from typing import Final

WINDOW: Final = 1024
"""Numbers that may overtake one another; a session has at most that many requests in progress."""

_MASK: Final = (1 << WINDOW) - 1


class ReplayWindow:
    """Ask `fresh` before the costly check, `take` after it."""

    def __init__(self) -> None:
        self._highest = -1
        self._seen = 0
        """Bit i stands for `_highest` - i."""

    def __repr__(self) -> str:
        return f"ReplayWindow(highest={self._highest}, seen={self._seen.bit_count()})"

    def fresh(self, sequence: int) -> bool:
        """Whether the number has not come, and is not too old to tell."""
        behind = self._highest - sequence
        return behind < 0 or (behind < WINDOW and not self._seen >> behind & 1)

    def take(self, sequence: int) -> bool:
        """The number has come, and proved genuine; False when it is not fresh."""
        if not self.fresh(sequence):
            return False
        ahead = sequence - self._highest
        if ahead > 0:
            self._seen = (self._seen << min(ahead, WINDOW)) & _MASK | 1
            self._highest = sequence
        else:
            self._seen |= 1 << -ahead
        return True
