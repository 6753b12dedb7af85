"""How far reality has moved from what was measured, as factors."""

from typing import Final

_SMOOTHING: Final = 0.2
_SHARPNESS: Final = 4
_LEAST_ERROR: Final = -0.9
_MOST_ERROR: Final = 4.0
_LIMIT: Final = 1e4


class Drift:
    """A factor for each key, part of which all keys share: when one stage has become slower, the
    others probably have too.

    The shared part follows with a gain that grows while the errors keep their sign and shrinks
    while they alternate (Trigg and Leach, "Exponential smoothing with an adaptive response rate",
    1967; the fourth power of their signal here, which tells noise from change more sharply). Errors
    are relative, so that the factor settles where the mean of observed / expected is 1. Both parts
    go back to 1 by half in each `half_life_s` without news. `prior` observations' worth of trust is
    given to what was measured before, and the less to what was learnt the longer ago that is.
    """

    def __init__(
        self, *, half_life_s: float, least_gain: float, most_gain: float = 0.9, prior: float = 0.0
    ) -> None:
        self._half_life_s = half_life_s
        self._least_gain = least_gain
        self._most_gain = most_gain
        self._prior = prior
        self._count = 0
        self._shared = 1.0
        self._own: dict[str, float] = {}
        self._at: float | None = None
        self._error = 0.0
        self._size = 0.0

    def __repr__(self) -> str:
        return f"Drift({self._shared:.3f}, {len(self._own)} keys, {self._count} observations)"

    def factor(self, key: str, now: float) -> float:
        """What an expectation is to be multiplied by."""
        kept = self._kept(now)
        return float((self._shared * self._own.get(key, 1.0)) ** kept)

    def observe(self, key: str, ratio: float, now: float) -> None:
        """Something took `ratio` times what was expected of it, the factor included."""
        kept = self._kept(now)
        self._shared **= kept
        self._own = {name: value**kept for name, value in self._own.items()}
        self._at = now
        error = min(max(ratio - 1, _LEAST_ERROR), _MOST_ERROR)
        self._error += _SMOOTHING * (error - self._error)
        self._size += _SMOOTHING * (abs(error) - self._size)
        self._count += 1
        signal = abs(self._error) / self._size if self._size else 0.0
        gain = max(self._least_gain, 1 / (self._count + self._prior), 1 - kept)
        if self._count > 2:
            gain = max(gain, signal**_SHARPNESS)
        self._shared = _bounded(self._shared * (1 + min(gain, self._most_gain) * error))
        own = self._own.get(key, 1.0)
        self._own[key] = _bounded(own * (1 + self._least_gain * error))

    def absorbed(self, ratio: float) -> None:
        """What is expected has by itself become `ratio` times as much: of what the shared part adds
        to it that much is no longer missing."""
        if ratio > 1 and self._shared > 1:
            self._shared = max(self._shared / ratio, 1.0)

    def _kept(self, now: float) -> float:
        if self._at is None:
            return 1.0
        return float(2 ** (-max(0.0, now - self._at) / self._half_life_s))


def _bounded(factor: float) -> float:
    return min(max(factor, 1 / _LIMIT), _LIMIT)
