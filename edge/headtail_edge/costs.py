"""What computing costs, learned from what it has cost: lines through measurements with outliers.

    a batch    seconds = fixed + each * jobs, for every bundle and cut that was computed here
    a segment  the same, for every segment of a tail that was computed by itself
    decoding   seconds a payload, for every bundle, cut and codec
    elsewhere  a cut that was never computed: seconds = fixed + each * multiply-adds, as of others

Recursive least squares with a forgetting factor; a measurement counts the less the more it is out
of line (Huber's weights, *Robust Estimation of a Location Parameter*, 1964), so that one batch
that the machine was busy elsewhere in says little, and a machine that became slower is followed
within some tens of batches. Nothing here looks at a clock.
"""

from collections.abc import Callable, Hashable
from typing import Final

_REMEMBERED: Final = 0.95
"""What a measurement's weight is multiplied by at each new one: about the last 20 count."""

_FIRST_WEIGHT: Final = 0.2
"""The first batch is often a slow one: memory is got, caches are cold."""

_IN_LINE: Final = 3.0
"""Up to so many times the usual deviation a measurement counts fully."""

_SPREAD_GAIN: Final = 0.1
_LEAST_SPREAD: Final = 0.02
"""Of the prediction: no measurement of time is better than that."""

_ORIGIN_WEIGHT: Final = 0.001
"""Of the knowledge that nothing takes no time, which gives a line a slope while all batches were
of one size."""

_FIRST_GUESS_S: Final = 0.05
"""What a job may take before any was measured."""

_CURRENT_S: Final = 10.0
"""What was measured so long before the last measurement of all is not compared with it."""

_KNOWN_WEIGHT: Final = 2.0
"""Of a segment's measurements: the first three."""


class LineCost:
    """A line `fixed_s + each_s * size` through measurements; neither part is ever negative."""

    def __init__(self) -> None:
        self.fixed_s = 0.0
        self.each_s = 0.0
        self.observed_at = float("-inf")
        self.weight = 0.0
        """Of all measurements: the less, the longer they are gone."""
        self._spread_s = 0.0
        self._size = 0.0
        self._size_size = 0.0
        self._seconds = 0.0
        self._size_seconds = 0.0

    def __repr__(self) -> str:
        return f"<LineCost {self.fixed_s:.3g} s + {self.each_s:.3g} s each>"

    def seconds(self, size: float) -> float:
        """What `size` is expected to take."""
        return self.fixed_s + self.each_s * size

    def observe(self, size: float, seconds: float, now: float) -> None:
        """`size` (greater than 0) took that long."""
        self.observed_at = now
        weight = self._trust(size, seconds)
        self.weight = self.weight * _REMEMBERED + weight
        self._size = self._size * _REMEMBERED + weight * size
        self._size_size = self._size_size * _REMEMBERED + weight * size * size
        self._seconds = self._seconds * _REMEMBERED + weight * seconds
        self._size_seconds = self._size_seconds * _REMEMBERED + weight * size * seconds
        self._fit()

    def _trust(self, size: float, seconds: float) -> float:
        """From 0 to 1; the deviation that is usual follows what is seen, but no outlier can
        move it far."""
        if self.weight == 0.0:
            self._spread_s = seconds / 2
            return _FIRST_WEIGHT
        expected = self.seconds(size)
        deviation = abs(seconds - expected)
        in_line = _IN_LINE * max(self._spread_s, _LEAST_SPREAD * expected)
        self._spread_s += _SPREAD_GAIN * (min(deviation, 2 * in_line) - self._spread_s)
        return 1.0 if deviation <= in_line else in_line / deviation

    def _fit(self) -> None:
        weight = self.weight + _ORIGIN_WEIGHT
        mean_size, mean_seconds = self._size / weight, self._seconds / weight
        variance = self._size_size / weight - mean_size * mean_size
        covariance = self._size_seconds / weight - mean_size * mean_seconds
        self.each_s = max(0.0, covariance / variance)
        self.fixed_s = mean_seconds - self.each_s * mean_size
        if self.fixed_s < 0:
            self.fixed_s, self.each_s = 0.0, self._size_seconds / self._size_size


class Costs:
    """All lines of one edge, by the keys of batches. Not thread-safe.

    `gmacs` is what one job's tail computes, in 1e9 multiply-adds.
    """

    def __init__(self) -> None:
        self._batches: dict[Hashable, LineCost] = {}
        self._segments: dict[Hashable, LineCost] = {}
        self._decoding: dict[tuple[Hashable, str], LineCost] = {}
        self._elsewhere = LineCost()

    def __repr__(self) -> str:
        return f"<Costs {self._batches!r}>"

    def computed(
        self, key: Hashable, jobs: int, seconds: float, *, gmacs: float, now: float
    ) -> None:
        """A batch of `jobs` was computed, decoding not counted."""
        self._batches.setdefault(key, LineCost()).observe(jobs, seconds, now)
        self._elsewhere.observe(jobs * max(gmacs, 1e-6), seconds, now)

    def passed(self, key: Hashable, jobs: int, seconds: float, *, now: float) -> None:
        """A segment was computed for `jobs`. It tells nothing of whole tails elsewhere."""
        self._segments.setdefault(key, LineCost()).observe(jobs, seconds, now)

    def decoded(self, key: Hashable, codec: str, seconds: float, now: float) -> None:
        """One payload was decoded."""
        self._decoding.setdefault((key, codec), LineCost()).observe(1, seconds, now)

    def keep(self, served: Callable[[Hashable], bool]) -> None:
        """Forget all keys but those that are `served`."""
        self._batches = {key: line for key, line in self._batches.items() if served(key)}
        self._segments = {key: line for key, line in self._segments.items() if served(key)}
        self._decoding = {way: line for way, line in self._decoding.items() if served(way[0])}

    def batch_s(self, key: Hashable, jobs: int, *, gmacs: float) -> float:
        """What a batch is expected to take, decoding not counted; a guess before any was
        measured."""
        known = self._batches.get(key)
        if known is not None:
            return known.seconds(jobs)
        if self.measured:
            return self._elsewhere.seconds(jobs * gmacs)
        return _FIRST_GUESS_S * jobs

    def segment_s(self, key: Hashable, jobs: int, *, tail: Hashable, share: float) -> float:
        """What a segment is expected to take that is that `share` of the whole `tail` by
        multiply-adds. While it is not known, it is the same share of what the tail takes a job."""
        if self.is_known(key):
            return self._segments[key].seconds(jobs)
        whole = self._batches.get(tail)
        return whole.each_s * jobs * share if whole is not None else 0.0

    def is_known(self, key: Hashable) -> bool:
        """Whether a segment was measured some times, and about when the last batch of all was."""
        known = self._segments.get(key)
        return known is not None and known.weight >= _KNOWN_WEIGHT and self._is_current(known)

    def is_current(self, key: Hashable) -> bool:
        """Whether a batch of that key was measured about when the last one of all was."""
        known = self._batches.get(key)
        return known is not None and self._is_current(known)

    def decode_s(self, key: Hashable, codec: str) -> float:
        """What decoding a payload is expected to take; nothing before any was measured."""
        known = self._decoding.get((key, codec))
        return known.seconds(1) if known is not None else 0.0

    @property
    def measured(self) -> bool:
        """Whether anything was ever computed."""
        return self._elsewhere.observed_at > float("-inf")

    def age_s(self, key: Hashable, now: float) -> float:
        """How long ago a batch or segment of that key was measured; infinity when none was."""
        known = self._batches.get(key) or self._segments.get(key)
        return now - known.observed_at if known is not None else float("inf")

    def _is_current(self, line: LineCost) -> bool:
        return line.observed_at >= self._elsewhere.observed_at - _CURRENT_S
