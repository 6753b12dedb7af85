"""What work will take, learned from what it took.

The formula is that of `prices`; the engine's own estimate is where it begins. Its coefficients are
followed by a Kalman filter. From one iteration to the next each may drift by itself, and all of
them together, as they do when others use the machine's memory and caches: so what a decode took
tells of prompts, too. None falls below zero: where a measurement would take one there, it is held
at zero and the measurement explained by the others.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headtail_cloud.core.prices import Estimate, segment_prices, text_prices
from headtail_cloud.core.request import Segment
from headtail_cloud.core.work import Work

_Vector = NDArray[np.float64]

_CONTEXT_UNIT: Final = 1000

_DOUBT: Final = 0.5
"""How far the engine's estimates of coefficients may be off, relative to them (a standard
deviation): each by itself, and all of them together by as much again."""

_DRIFT: Final = 0.005
_COMMON_DRIFT: Final = 0.02
"""By how much they change from one iteration to the next, relative to them."""

_NOISE: Final = 0.1
"""Of a measurement, relative to it."""

_JITTER_S: Final = 0.0002
"""Of any measurement: the briefest tell nothing about the machine's speed."""

_LEAST: Final = 0.05
"""Of the mean of those that it came with: no coefficient's doubt and drift are below those of one
of that size, so that one of zero can grow."""

_SMALLEST_S: Final = 1e-9

_REMEMBERED: Final = 0.99
"""Weight of an iteration's error against that of the next: about the last hundred count."""

_QUANTILE: Final = 3.0
"""Standard deviations that an iteration stays below: 998 of 1000 do, if errors are normal."""

_WIDEST: Final = 1.0
"""Of the margin: what is that uncertain is not planned with any more."""


class CostModel:
    """Estimates never fall below zero, nor when work is added."""

    def __init__(self, prior: Estimate) -> None:
        """`prior`: an engine's `estimate`."""
        self._prior = prior
        self._columns: dict[Segment, int] = {}
        self._weights: _Vector = np.zeros(0)
        self._least: _Vector = np.zeros(0)
        self._covariance: _Vector = np.zeros((0, 0))
        self._squared_errors = 0.0
        self._squared_estimates = 0.0
        texts = text_prices(prior)
        self._grow(
            prior(Work()),
            texts.run_s,
            texts.several_s,
            texts.prefill_s,
            texts.first_s,
            texts.decode_s,
            texts.context_s * _CONTEXT_UNIT,
        )

    def __repr__(self) -> str:
        names = ["step", "text run", "several", "prefill", "first", "decode", "context"]
        names += [f"{s} {part}" for s in self._columns for part in ("run", "item")]
        parts = zip(names, self._coefficients, strict=True)
        return f"<CostModel {', '.join(f'{name} {1000 * w:.3g} ms' for name, w in parts)}>"

    @property
    def margin(self) -> float:
        """How many times its estimate an iteration takes at most, as a rule; at least 1."""
        if not self._squared_estimates:
            return 1.0
        spread = float(np.sqrt(self._squared_errors / self._squared_estimates))
        return 1.0 + min(_QUANTILE * spread, _WIDEST)

    @property
    def text_run_s(self) -> float:
        """Of an iteration that computes texts, what it takes however few they are."""
        return sum(self._coefficients[:3])

    def estimate(self, work: Work) -> float:
        """Seconds."""
        known = self._coefficients
        texts_s = 0.0
        if tokens := work.tokens:
            texts_s = (
                known[1]
                + known[2] * (tokens > 1)
                + known[3] * work.prefill_tokens
                + known[4] * work.first_tokens
                + known[5] * work.decodes
                + known[6] * work.context_tokens / _CONTEXT_UNIT
            )
        return (
            known[0]
            + texts_s
            + sum(self._tails_s(segment, items) for segment, items in work.items.items())
        )

    def segment_s(self, segment: Segment, items: int) -> float:
        """What `estimate` says of that many items by themselves, at less cost: it is asked for
        each tail that waits."""
        return self._coefficients[0] + self._tails_s(segment, items)

    def observe(self, work: Work, seconds: float) -> None:
        """That work took that long."""
        estimate_s = self.estimate(work)
        error_s = seconds - estimate_s
        self._squared_errors = _REMEMBERED * self._squared_errors + error_s**2
        self._squared_estimates = _REMEMBERED * self._squared_estimates + estimate_s**2
        self._drift()
        row = np.zeros(len(self._weights))
        for at, x in self._features(work):
            row[at] = x
        gain = self._covariance @ row
        # Relative errors count: a slow step must not outweigh a thousand quick ones.
        noise_s = _NOISE * max(estimate_s, seconds)
        gain /= row @ gain + noise_s**2 + _JITTER_S**2
        self._weights += gain * error_s
        self._covariance -= np.outer(gain, row @ self._covariance)
        self._keep_positive()
        self._coefficients = _listed(self._weights)

    def _features(self, work: Work) -> Iterator[tuple[int, float]]:
        yield 0, 1.0
        if work.tokens:
            yield from (
                (1, 1.0),
                (2, work.tokens > 1),
                (3, work.prefill_tokens),
                (4, work.first_tokens),
                (5, work.decodes),
                (6, work.context_tokens / _CONTEXT_UNIT),
            )
        for segment, count in work.items.items():
            if count:
                at = self._column(segment)
                yield from ((at, 1.0), (at + 1, count))

    def _tails_s(self, segment: Segment, items: int) -> float:
        if not items:
            return 0.0
        at = self._column(segment)
        return self._coefficients[at] + self._coefficients[at + 1] * items

    def _drift(self) -> None:
        likely = np.maximum(self._weights, self._least)
        self._covariance += np.outer(likely, likely) * _COMMON_DRIFT**2
        self._covariance[np.diag_indices(len(likely))] += (_DRIFT * likely) ** 2

    def _keep_positive(self) -> None:
        """One after the other, the coefficients below zero are set to zero and the others to what
        is likely if they are zero; how uncertain they are stays as it was."""
        for _ in self._weights:
            at = int(np.argmin(self._weights))
            if self._weights[at] >= 0:
                return
            self._weights -= self._covariance[:, at] / self._covariance[at, at] * self._weights[at]
            self._weights[at] = 0.0
        self._weights = np.maximum(self._weights, 0.0)

    def _column(self, segment: Segment) -> int:
        """Where its coefficients are."""
        at = self._columns.get(segment)
        if at is None:
            at = self._columns[segment] = len(self._weights)
            prices = segment_prices(self._prior, segment)
            self._grow(prices.run_s, prices.item_s)
        return at

    def _grow(self, *weights: float) -> None:
        before, size = len(self._weights), len(self._weights) + len(weights)
        least = np.full(len(weights), max(_LEAST * float(np.mean(weights)), _SMALLEST_S))
        added = np.maximum(weights, least)
        covariance = np.zeros((size, size))
        covariance[:before, :before] = self._covariance
        covariance[before:, before:] = (np.diag(added**2) + np.outer(added, added)) * _DOUBT**2
        self._covariance = covariance
        self._weights = np.append(self._weights, weights)
        self._least = np.append(self._least, least)
        self._coefficients = _listed(self._weights)


def _listed(weights: _Vector) -> list[float]:
    """Single elements of an array are slow to read."""
    coefficients: list[float] = weights.tolist()
    return coefficients
