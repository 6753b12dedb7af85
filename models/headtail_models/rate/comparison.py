"""Bytes at equal agreement: ours against a rival, with intervals from a bootstrap over samples.

The same samples are drawn for both, since a hard picture is hard for both. (Efron and Tibshirani,
"An Introduction to the Bootstrap", 1993, chapter 13: percentile intervals.)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from headtail_models.rate.curve import bytes_at
from headtail_models.rate.evaluation import Point
from headtail_models.rate.tally import Weights

DRAWS: Final = 300
LEVEL: Final = 0.95
"""Of the intervals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """Our bytes over the rival's at one agreement; None where one of them does not reach it.

    `interval` is None when fewer than half of the draws reach it; `reached`: their share.
    """

    agreement: float
    ours: float | None
    rival: float | None
    interval: Interval | None
    reached: float

    @property
    def value(self) -> float | None:
        if self.ours is None or self.rival is None:
            return None
        return self.ours / self.rival


class Bootstrap:
    """Draws of P samples, always the same for the same P and seed."""

    def __init__(self, samples: int, *, draws: int = DRAWS, seed: int = 0) -> None:
        random = np.random.default_rng(seed)
        drawn = random.integers(0, samples, (draws, samples))
        counts = [np.bincount(row, minlength=samples) for row in drawn]
        self.weights: tuple[Weights, ...] = tuple(row.astype(np.float64) for row in counts)

    def interval(self, values: Sequence[float]) -> Interval:
        """Of a figure that was taken for each draw."""
        low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        return Interval(low=float(low), high=float(high))


def bytes_of(
    points: Sequence[Point], agreement: float, weights: Weights | None = None
) -> float | None:
    """Bytes that a curve needs for `agreement`; None where it is not reachable."""
    return bytes_at([point.place(weights) for point in points], agreement)


def best_of(
    families: Mapping[str, Sequence[Point]], agreement: float, weights: Weights | None = None
) -> float | None:
    """The fewest bytes of several curves."""
    found = (bytes_of(points, agreement, weights) for points in families.values())
    return min((size for size in found if size is not None), default=None)


def compare(
    ours: Sequence[Point],
    rivals: Mapping[str, Sequence[Point]],
    agreement: float,
    bootstrap: Bootstrap,
) -> Ratio:
    """Our curve against the best of `rivals` at `agreement`."""
    ratios = []
    for weights in bootstrap.weights:
        mine = bytes_of(ours, agreement, weights)
        theirs = best_of(rivals, agreement, weights)
        if mine is not None and theirs is not None:
            ratios.append(mine / theirs)
    reached = len(ratios) / len(bootstrap.weights)
    return Ratio(
        agreement=agreement,
        ours=bytes_of(ours, agreement),
        rival=best_of(rivals, agreement),
        interval=bootstrap.interval(ratios) if reached >= 0.5 else None,
        reached=reached,
    )
