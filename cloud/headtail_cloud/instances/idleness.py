"""How long a group is idle between two uses: a histogram, and what follows from it.

After Shahrad et al., "Serverless in the Wild" (USENIX ATC 2020, section 4.2): an instance that was
used is let go at once when the next use is far off, is started again shortly before the time that
only few idle times were shorter than, and is kept until nearly all would be over. Where the
histogram has no shape, or most idle times lie beyond its end, a fixed time is better.
"""

import math
from dataclasses import dataclass
from typing import Final

_FIRST_SHARE: Final = 0.05
_LAST_SHARE: Final = 0.99
_MARGIN: Final = 0.1
_LEAST_SPREAD: Final = 2.0
"""Coefficient of variation of the bins' counts from which on the histogram says something."""
_LEAST_SAMPLES: Final = 8
_MOST_BEYOND: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmWindow:
    """From the end of a use on, in seconds: when an instance should be there again, and until
    when."""

    from_s: float
    until_s: float


class IdleTimes:
    """Idle times in `bins` bins of `bin_s` seconds, and how many were longer."""

    def __init__(self, *, bin_s: float = 1.0, bins: int = 900) -> None:
        if bin_s <= 0 or bins < 2:
            raise ValueError("a histogram needs bins")
        self._bin_s = bin_s
        self._counts = [0] * bins
        self._beyond = 0

    def __repr__(self) -> str:
        return f"<IdleTimes {self.samples} samples, {self._beyond} beyond>"

    @property
    def samples(self) -> int:
        return sum(self._counts) + self._beyond

    def add(self, idle_s: float) -> None:
        """One more."""
        at = int(idle_s / self._bin_s)
        if at < len(self._counts):
            self._counts[at] += 1
        else:
            self._beyond += 1

    def window(self) -> WarmWindow | None:
        """None while the histogram says nothing."""
        inside = sum(self._counts)
        if self.samples < _LEAST_SAMPLES or self._beyond > _MOST_BEYOND * self.samples:
            return None
        if self._spread(inside) < _LEAST_SPREAD:
            return None
        first = self._bin_of(_FIRST_SHARE * inside)
        last = self._bin_of(_LAST_SHARE * inside)
        return WarmWindow(
            from_s=first * self._bin_s * (1 - _MARGIN),
            until_s=(last + 1) * self._bin_s * (1 + _MARGIN),
        )

    def _spread(self, inside: int) -> float:
        mean = inside / len(self._counts)
        variance = sum((count - mean) ** 2 for count in self._counts) / len(self._counts)
        return math.sqrt(variance) / mean if mean else 0.0

    def _bin_of(self, count: float) -> int:
        """The first bin up to whose end there are at least that many."""
        seen = 0
        for at, here in enumerate(self._counts):
            seen += here
            if seen >= max(count, 1):
                return at
        return len(self._counts) - 1
