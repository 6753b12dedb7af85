"""Bytes at equal agreement: ours against a rival, with intervals from a bootstrap over samples.

The same samples are drawn for both, since a hard picture is hard for both. (Efron and Tibshirani,
"An Introduction to the Bootstrap", 1993, chapter 13: percentile intervals.)
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from headtail_models.rate.curve import Place, bytes_at, bytes_on, envelope
from headtail_models.rate.evaluation import Point
from headtail_models.rate.tally import Values, Weights, mean

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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Drawn:
    """A point in every draw: mean bytes and agreement (draws,)."""

    sizes: Values
    agreements: Values


class Bootstrap:
    """Draws of P samples, always the same for the same P and seed; `weights` (draws, P).

    What a point is in each draw is computed when it is first asked for, for all draws at once.
    """

    def __init__(self, samples: int, *, draws: int = DRAWS, seed: int = 0) -> None:
        random = np.random.default_rng(seed)
        drawn = random.integers(0, samples, (draws, samples))
        counts = [np.bincount(row, minlength=samples) for row in drawn]
        self.weights: Weights = np.array(counts, dtype=np.float64)
        self._drawn: dict[Point, Drawn] = {}

    def of(self, point: Point) -> Drawn:
        """The point in every draw."""
        if point not in self._drawn:
            self._drawn[point] = Drawn(
                sizes=mean(point.sizes, self.weights),
                agreements=point.tally.agreement(self.weights),
            )
        return self._drawn[point]

    def curves(self, points: Sequence[Point]) -> list[tuple[Place, ...]]:
        """The envelope of `points` in each draw."""
        drawn = [self.of(point) for point in points]
        sizes = np.array([one.sizes for one in drawn]).T.tolist()
        agreements = np.array([one.agreements for one in drawn]).T.tolist()
        return [
            envelope(
                [
                    Place(size_bytes=size, accuracy=accuracy)
                    for size, accuracy in zip(*rows, strict=True)
                ]
            )
            for rows in zip(sizes, agreements, strict=True)
        ]

    def interval(self, values: Sequence[float] | Values) -> Interval:
        """Of a figure that was taken for each draw."""
        low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        return Interval(low=float(low), high=float(high))


def bytes_of(points: Sequence[Point], agreement: float) -> float | None:
    """Bytes that a curve needs for `agreement`; None where it is not reachable."""
    return bytes_at([point.place() for point in points], agreement)


def best_of(families: Mapping[str, Sequence[Point]], agreement: float) -> float | None:
    """The fewest bytes of several curves."""
    return _least(bytes_of(points, agreement) for points in families.values())


def compare(
    ours: Sequence[Point],
    rivals: Mapping[str, Sequence[Point]],
    agreements: Sequence[float],
    bootstrap: Bootstrap,
) -> dict[float, Ratio]:
    """Our curve against the best of `rivals`, at each of `agreements`."""
    mine = bootstrap.curves(ours)
    theirs = [bootstrap.curves(points) for points in rivals.values()]
    found = {}
    for agreement in agreements:
        ratios = []
        for draw, curve in enumerate(mine):
            own = bytes_on(curve, agreement)
            least = _least(bytes_on(curves[draw], agreement) for curves in theirs)
            if own is not None and least is not None:
                ratios.append(own / least)
        reached = len(ratios) / len(mine)
        found[agreement] = Ratio(
            agreement=agreement,
            ours=bytes_of(ours, agreement),
            rival=best_of(rivals, agreement),
            interval=bootstrap.interval(ratios) if reached >= 0.5 else None,
            reached=reached,
        )
    return found


def _least(sizes: Iterable[float | None]) -> float | None:
    return min((size for size in sizes if size is not None), default=None)
