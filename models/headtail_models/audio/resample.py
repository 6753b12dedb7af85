"""Changing the sampling rate by a ratio of whole numbers: a polyphase filter.

The low-pass is a sinc under a Kaiser window (Crochiere and Rabiner, "Multirate Digital Signal
Processing", 1983, chapter 4): flat to 0.9 of the lower band limit, 80 dB down above 1.1 of it.
"""

from functools import lru_cache
from math import ceil, gcd
from typing import Final

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float32]
Floats = NDArray[np.float64]

RATES: Final = range(1000, 384_001)
_BETA: Final = 8.0
"""Of the Kaiser window: 80 dB."""
_ZEROS: Final = 25
"""Zero crossings of the sinc on each side of its middle."""
_GROUP: Final = 32
"""Outputs that are computed in one go, by one product with a matrix: always as many, so that a
stream and a whole sound round alike."""


class _Bank:
    """The filter as matrices: output m is made of the inputs around m * down / up."""

    def __init__(self, from_rate: int, to_rate: int) -> None:
        common = gcd(from_rate, to_rate)
        self.up, self.down = to_rate // common, from_rate // common
        self._band = min(1.0, self.up / self.down)  # of the input's own
        self.reach = ceil(_ZEROS / self._band)
        self.span = (_GROUP * self.down) // self.up + 2 * self.reach + 2
        self._matrices: dict[int, Floats] = {}

    def first(self, group: int) -> int:
        """The first input that a group of outputs is made of; `span` inputs are."""
        return group * _GROUP * self.down // self.up - self.reach

    def matrix(self, group: int) -> Floats:
        """(span, _GROUP): inputs from `first(group)` on to outputs."""
        phase = group * _GROUP * self.down % self.up
        if phase not in self._matrices:
            middles = (phase + np.arange(_GROUP) * self.down) / self.up + self.reach
            places = np.arange(self.span)[:, np.newaxis] - middles
            inside = 1 - (places / (self.reach + 1)) ** 2
            window = np.i0(_BETA * np.sqrt(np.clip(inside, 0, None))) * (inside > 0)
            taps = np.sinc(places * self._band) * window
            self._matrices[phase] = taps / taps.sum(axis=0)  # a constant stays what it is
        return self._matrices[phase]


@lru_cache(maxsize=8)
def _bank(from_rate: int, to_rate: int) -> _Bank:
    if from_rate not in RATES or to_rate not in RATES:
        raise ValueError(f"from {from_rate} Hz to {to_rate} Hz")
    return _Bank(from_rate, to_rate)


class Resampler:
    """Resamples a stream. All pieces together are what `resample` makes of the whole."""

    def __init__(self, from_rate: int, to_rate: int) -> None:
        """Raises ValueError for rates outside `RATES`."""
        self._same = from_rate == to_rate
        self._bank = _bank(from_rate, to_rate)
        self._held: Floats = np.zeros(self._bank.reach)
        self._first = -self._bank.reach  # the input that `_held` begins with
        self._group = 0

    def push(self, samples: Samples) -> Samples:
        """What can be said after `samples` (n,) more."""
        if self._same:
            return samples
        self._held = np.concatenate([self._held, samples])
        bank, parts = self._bank, []
        while (start := bank.first(self._group) - self._first) + bank.span <= self._held.size:
            parts.append(self._held[start : start + bank.span] @ bank.matrix(self._group))
            self._group += 1
        drop = max(0, start)
        self._held, self._first = self._held[drop:], self._first + drop
        return np.concatenate([*parts, np.zeros(0)]).astype(np.float32)

    def finish(self) -> Samples:
        """The rest, as if silence followed."""
        if self._same:
            return np.zeros(0, dtype=np.float32)
        bank = self._bank
        wanted = ceil((self._first + self._held.size) * bank.up / bank.down)
        missing = wanted - self._group * _GROUP
        rest = self.push(np.zeros(bank.span + bank.down * _GROUP // bank.up, dtype=np.float32))
        return rest[:missing]


def resample(samples: Samples, from_rate: int, to_rate: int) -> Samples:
    """`samples` (n,) at another rate: ceil(n * to / from) samples. Raises ValueError."""
    resampler = Resampler(from_rate, to_rate)
    return np.concatenate([resampler.push(samples), resampler.finish()])
