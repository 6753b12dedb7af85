"""Thresholds of several exits, found together for a budget of accuracy or of computation.

The exits depend on each other: what a later one sees is what the earlier ones kept. So all but the
last take every combination of a grid of quantiles, and for each combination the last one takes the
best of *all* its possible thresholds, which sorting gives in one go.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headtail_models.exits.answers import Answers
from headtail_models.exits.errors import CalibrationError

CLOSED: Final = 2.0
"""A threshold that no confidence reaches."""
MAX_EXITS: Final = 4
_COMBINATIONS: Final = 2500
_FINEST: Final = 200
_NOTHING: Final = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class AccuracyBudget:
    """At most `max_drop` of accuracy (0.01 is a point) below the whole network; least cost.

    `sureness`: how likely the drop is to stay below that on new samples of the same kind, by the
    paired differences' normal bound; 0.5 takes the calibration split at its word.
    """

    max_drop: float
    sureness: float = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeBudget:
    """At most `mean_cost` a sample, in the unit of the costs; the best accuracy."""

    mean_cost: float


Budget = AccuracyBudget | ComputeBudget


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Thresholds and what they gave on the samples they were found on, or any others.

    `coverage`: share of all samples that left at each exit. `drop`: accuracy that the whole network
    had more on all samples; `drops`: on those that left at each exit, 0 where none did. `cost`:
    mean a sample.
    """

    thresholds: tuple[float, ...]
    coverage: tuple[float, ...]
    accuracy: float
    drop: float
    drops: tuple[float, ...]
    cost: float

    @property
    def early(self) -> float:
        """Share of the samples that did not reach the end."""
        return sum(self.coverage)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """The budget is kept."""

    point: Point


@dataclass(frozen=True, slots=True, kw_only=True)
class NotReachable:
    """No thresholds keep the budget; `nearest` comes closest, and `reason` says how close."""

    nearest: Point
    reason: str


Outcome = Reached | NotReachable


def measure(answers: Answers, costs: Sequence[float], thresholds: Sequence[float]) -> Point:
    """What thresholds, one an exit, give. Raises CalibrationError as `choose` does."""
    _check(answers, costs)
    if len(thresholds) != answers.exits:
        raise CalibrationError(f"{len(thresholds)} thresholds for {answers.exits} exits")
    levels, correct = answers.levels(thresholds), answers.correct
    lost = correct[-1].astype(np.int64) - correct[levels, np.arange(answers.samples)]
    counts = np.bincount(levels, minlength=answers.exits + 1)
    losses = np.bincount(levels, weights=lost, minlength=answers.exits + 1)
    samples = answers.samples
    return Point(
        thresholds=tuple(float(threshold) for threshold in thresholds),
        coverage=tuple(float(count) / samples for count in counts[:-1]),
        accuracy=float(correct[-1].mean() - lost.mean()),
        drop=float(lost.mean()),
        drops=tuple(float(loss) for loss in losses[:-1] / np.maximum(counts[:-1], 1)),
        cost=float(counts @ np.asarray(costs, dtype=np.float64)) / samples,
    )


def choose(
    answers: Answers,
    costs: Sequence[float],
    budget: Budget,
    *,
    at_least: Sequence[float] | None = None,
) -> Outcome:
    """The thresholds that keep `budget` best.

    `costs` (E + 1): of a sample that leaves at each exit, and at the end; they grow. `at_least`:
    no threshold lies below these, so that one point after another is less eager at every exit.
    Raises CalibrationError for costs that don't grow or don't fit, and for more than four exits.
    """
    return choose_each(answers, costs, [budget], at_least=at_least)[0]


def choose_each(
    answers: Answers,
    costs: Sequence[float],
    budgets: Sequence[Budget],
    *,
    at_least: Sequence[float] | None = None,
) -> list[Outcome]:
    """The same for many budgets, in little more time than for one."""
    _check(answers, costs)
    floor = tuple(at_least) if at_least is not None else (0.0,) * answers.exits
    if len(floor) != answers.exits:
        raise CalibrationError(f"{len(floor)} least thresholds for {answers.exits} exits")
    best: list[_Candidate] = [(math.inf, math.inf, ())] * len(budgets)
    for front in _fronts(answers, costs, floor):
        for index, budget in enumerate(budgets):
            best[index] = min(best[index], _best(front, budget, answers.samples))
    return [
        _outcome(measure(answers, costs, thresholds), budget, missed)
        for budget, (missed, _, thresholds) in zip(budgets, best, strict=True)
    ]


def _outcome(point: Point, budget: Budget, missed: float) -> Outcome:
    if missed <= _NOTHING:
        return Reached(point=point)
    if isinstance(budget, AccuracyBudget):
        reason = f"the smallest drop is {budget.max_drop + missed:.4f}, not {budget.max_drop:.4f}"
    else:
        reason = f"the least cost is {point.cost:.4g} a sample, not {budget.mean_cost:.4g}"
    return NotReachable(nearest=point, reason=reason)


_Candidate = tuple[float, float, tuple[float, ...]]
"""By how much a budget is missed, what is to be made small besides, and the thresholds."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Front:
    """Thresholds of all exits but the last, with every threshold that the last one may have:
    right answers lost and gained (M,), and the mean cost (M,)."""

    early: tuple[float, ...]
    last: NDArray[np.float64]
    lost: NDArray[np.int64]
    gained: NDArray[np.int64]
    cost: NDArray[np.float64]


def _fronts(answers: Answers, costs: Sequence[float], floor: tuple[float, ...]) -> Iterator[_Front]:
    exits, price = answers.exits, np.asarray(costs, dtype=np.float64)
    right, at_end = answers.correct[:-1], answers.correct[-1]
    harm, gain = at_end & ~right, ~at_end & right
    grids = [_grid(answers.confidences[k], floor[k], exits) for k in range(exits - 1)]
    for early in product(*grids):
        levels = answers.levels((*early, CLOSED))
        gone, stay = np.flatnonzero(levels < exits), np.flatnonzero(levels == exits)
        order = stay[np.argsort(-answers.confidences[-1][stay], kind="stable")]
        sure = answers.confidences[-1][order]
        # Samples of one confidence leave together, and none leaves below the floor.
        ends = np.append(sure[1:] < sure[:-1], True) if sure.size else np.zeros(0, dtype=np.bool_)
        counts = np.concatenate([[0], np.flatnonzero(ends & (sure >= floor[-1])) + 1])
        yield _Front(
            early=early,
            last=np.concatenate([[CLOSED], sure[counts[1:] - 1]]),
            lost=_before(harm[-1][order])[counts] + int(harm[levels[gone], gone].sum()),
            gained=_before(gain[-1][order])[counts] + int(gain[levels[gone], gone].sum()),
            cost=(price[levels].sum() - counts * (price[-1] - price[-2])) / answers.samples,
        )


def _before(flags: NDArray[np.bool_]) -> NDArray[np.int64]:
    """How many are set among the first 0, 1, 2 ..."""
    return np.concatenate([[0], np.cumsum(flags)]).astype(np.int64)


def _grid(confidences: NDArray[np.float64], floor: float, exits: int) -> tuple[float, ...]:
    size = min(_FINEST, int(_COMBINATIONS ** (1 / (exits - 1))))
    allowed = confidences[confidences >= floor]
    if allowed.size == 0:
        return (CLOSED,)
    # Values that occur, so that no rounding makes a sample miss its own threshold.
    places = np.quantile(allowed, np.linspace(0, 1, size), method="closest_observation")
    return (*np.unique(places).tolist(), CLOSED)


def _best(front: _Front, budget: Budget, samples: int) -> _Candidate:
    drop = (front.lost - front.gained) / samples
    if isinstance(budget, AccuracyBudget):
        spread = np.sqrt(np.maximum((front.lost + front.gained) / samples - drop**2, 0) / samples)
        bound = drop + NormalDist().inv_cdf(budget.sureness) * spread
        missed, value = bound - budget.max_drop, front.cost
    else:
        missed, value = front.cost - budget.mean_cost, drop
    over = np.where(missed <= _NOTHING, 0.0, missed)
    nearest = np.flatnonzero(over == over.min())
    best = int(nearest[np.argmin(value[nearest])])
    return float(over[best]), float(value[best]), (*front.early, float(front.last[best]))


def _check(answers: Answers, costs: Sequence[float]) -> None:
    if answers.exits > MAX_EXITS:
        raise CalibrationError(
            f"{answers.exits} exits, at most {MAX_EXITS} are calibrated together"
        )
    if len(costs) != answers.exits + 1:
        raise CalibrationError(f"{len(costs)} costs for {answers.exits} exits and the end")
    if not all(0 <= one < other for one, other in pairwise(costs)):
        raise CalibrationError(f"costs {list(costs)} do not grow from exit to exit")
