"""What work will take, by recursive least squares on what it took.

    seconds = step + prefill * tokens + decode * decodes + context * positions / 1000
              + sum over segments (run + item * items)

The engine's own estimate is where it starts. Each new segment adds two coefficients.
"""

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headtail_cloud.core.request import Segment
from headtail_cloud.core.work import Work

_Vector = NDArray[np.float64]

_FORGETTING: Final = 0.97
"""Weight of a measurement against the one after it: about the last thirty count."""

_CONTEXT_UNIT: Final = 1000
_FIXED: Final = 4
_DOUBT: Final = 1.0
"""How far the engine's estimate of a coefficient may be off, relative to it (a standard
deviation)."""

_NOISE: Final = 0.1
"""Of a measurement, relative to it."""


class CostModel:
    """Estimates never fall below zero, nor when work is added."""

    def __init__(self, prior: Callable[[Work], float]) -> None:
        """`prior(work)`: seconds, linear in each part of `work` (an engine's `estimate`)."""
        self._prior = prior
        step = prior(Work())
        self._columns: dict[Segment, int] = {}
        self._weights: _Vector = np.zeros(0)
        self._doubts: _Vector = np.zeros(0)
        self._covariance: _Vector = np.zeros((0, 0))
        self._grow(step)
        self._grow(prior(Work(prefill_tokens=1)) - step)
        self._grow(prior(Work(decodes=1)) - step)
        self._grow(prior(Work(context_tokens=_CONTEXT_UNIT)) - step)

    def __repr__(self) -> str:
        names = ["step", "prefill", "decode", "context"]
        names += [f"{s} {part}" for s in self._columns for part in ("run", "item")]
        parts = zip(names, self._coefficients, strict=True)
        return f"<CostModel {', '.join(f'{name} {1000 * w:.3g} ms' for name, w in parts)}>"

    def estimate(self, work: Work) -> float:
        """Seconds."""
        self._learn_segments(work)
        return sum(self._coefficients[at] * x for at, x in self._features(work))

    def item_s(self, segment: Segment) -> float:
        """What `estimate` says of one item by itself, at less cost: it is asked for each that
        waits."""
        at = self._columns.get(segment)
        if at is None:
            return self.estimate(Work(items={segment: 1}))
        return self._coefficients[0] + self._coefficients[at] + self._coefficients[at + 1]

    def observe(self, work: Work, seconds: float) -> None:
        """That work took that long."""
        self._learn_segments(work)
        row = np.zeros(len(self._weights))
        for at, x in self._features(work):
            row[at] = x
        # Relative errors count: a slow step must not outweigh a thousand quick ones.
        scale = 1 / max(self.estimate(work), seconds, 1e-6)
        row *= scale
        gain = self._covariance @ row
        gain /= _FORGETTING * _NOISE**2 + row @ gain
        corrected = self._weights + gain * (seconds * scale - row @ self._weights)
        # What clipping adds, the next measurements of the same work take away again.
        self._weights = np.maximum(corrected, 0.0)
        reduced = (self._covariance - np.outer(gain, row @ self._covariance)) / _FORGETTING
        self._covariance = _capped((reduced + reduced.T) / 2, self._doubts)
        self._coefficients = _listed(self._weights)

    def _features(self, work: Work) -> Iterator[tuple[int, float]]:
        yield from (
            (0, 1.0),
            (1, work.prefill_tokens),
            (2, work.decodes),
            (3, work.context_tokens / _CONTEXT_UNIT),
        )
        for segment, count in work.items.items():
            if count:
                at = self._columns[segment]
                yield from ((at, 1.0), (at + 1, count))

    def _learn_segments(self, work: Work) -> None:
        for segment in work.items:
            if segment not in self._columns:
                self._columns[segment] = len(self._weights)
                step, one, two = (
                    self._prior(Work(items={segment: count} if count else {})) for count in range(3)
                )
                self._grow(max(0.0, 2 * one - two - step))
                self._grow(max(0.0, two - one))

    def _grow(self, weight: float) -> None:
        doubt = _DOUBT * max(weight, 1e-6)
        size = len(self._weights)
        covariance = np.zeros((size + 1, size + 1))
        covariance[:size, :size] = self._covariance
        covariance[size, size] = doubt**2
        self._covariance = covariance
        self._weights = np.append(self._weights, weight)
        self._doubts = np.append(self._doubts, doubt)
        self._coefficients = _listed(self._weights)


def _listed(weights: _Vector) -> list[float]:
    """Single elements of an array are slow to read."""
    coefficients: list[float] = weights.tolist()
    return coefficients


def _capped(covariance: _Vector, doubts: _Vector) -> _Vector:
    """No coefficient more doubtful than at first: what is not exercised is forgotten by the
    forgetting factor alone, and would take the first measurement for gospel."""
    deviations = np.sqrt(np.maximum(np.diag(covariance), 1e-30))
    shrink = np.minimum(1.0, doubts / deviations)
    capped: _Vector = covariance * np.outer(shrink, shrink)
    return capped
