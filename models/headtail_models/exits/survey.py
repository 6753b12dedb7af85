"""What exits are worth: curves of accuracy against computation, and what policies give away.

Everything is chosen on one split, `held`, and measured on another, `test`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headtail_models.exits.answers import Answers
from headtail_models.exits.cascade import CascadeLogits
from headtail_models.exits.criteria import Criterion
from headtail_models.exits.leak import (
    Windows,
    attack,
    count_windows,
    dominated_order,
    information,
)
from headtail_models.exits.policy import (
    ConfidenceGuided,
    ExitPolicy,
    PerClass,
    Threshold,
    class_thresholds,
    run,
)
from headtail_models.exits.temperature import calibration_error, fit_temperature
from headtail_models.exits.thresholds import (
    CLOSED,
    AccuracyBudget,
    Budget,
    ComputeBudget,
    Outcome,
    Point,
    Reached,
    choose_each,
    measure,
)

_POINTS: Final = 13
_LENGTH: Final = 10
_PURITY: Final = 0.8


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Observed:
    """A split: logits of every exit and the end, and `labels` (N,)."""

    logits: CascadeLogits
    labels: NDArray[np.int64]

    def answers(self, criterion: Criterion, temperatures: Sequence[float]) -> Answers:
        """Raises CalibrationError."""
        return Answers.of(
            self.logits.exits,
            self.logits.end,
            self.labels,
            criterion=criterion,
            temperatures=temperatures,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Surveyed:
    """One criterion. `curve`: points on `test` for budgets of computation from the least to all;
    `chosen`: the point for the accuracy budget, on `test`, with its thresholds. `errors`: ECE of
    each exit on `test`, before and after the temperature."""

    criterion: Criterion
    temperatures: tuple[float, ...]
    errors: tuple[tuple[float, float], ...]
    curve: tuple[Point, ...]
    chosen: Point
    held: Answers
    test: Answers


def survey(
    held: Observed,
    test: Observed,
    costs: Sequence[float],
    *,
    criterion: Criterion,
    max_drop: float = 0.01,
    sureness: float = 0.9,
) -> Surveyed:
    """Calibrate on `held`, measure on `test`. Raises CalibrationError."""
    temperatures = tuple(fit_temperature(rows, held.labels) for rows in held.logits.exits)
    on_held = held.answers(criterion, temperatures)
    on_test = test.answers(criterion, temperatures)
    budgets: list[Budget] = [
        ComputeBudget(mean_cost=float(cost)) for cost in np.linspace(costs[0], costs[-1], _POINTS)
    ]
    budgets.append(AccuracyBudget(max_drop=max_drop, sureness=sureness))
    *curve, chosen = (
        measure(on_test, costs, _nearest(outcome).thresholds)
        for outcome in choose_each(on_held, costs, budgets)
    )
    return Surveyed(
        criterion=criterion,
        temperatures=temperatures,
        errors=tuple(
            (
                calibration_error(rows, test.labels),
                calibration_error(rows, test.labels, temperature=temperature),
            )
            for rows, temperature in zip(test.logits.exits, temperatures, strict=True)
        ),
        curve=tuple(dict.fromkeys(curve)),  # more computation than is of use changes nothing
        chosen=chosen,
        held=on_held,
        test=on_test,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyPoint:
    """What one policy gives on `test`, and gives away.

    `label_bits`, `answer_bits`: information of one exit decision about the class that was shown and
    that was answered; `window_bits`: of the counts in a window of 10 frames, 8 of one class, about
    that class; `guessed`: share of the windows whose class the attack finds, `by_chance` by
    guessing.
    """

    policy: str
    coverage: tuple[float, ...]
    accuracy: float
    cost: float
    label_bits: float
    answer_bits: float
    window_bits: float
    guessed: float
    by_chance: float


def compare_policies(
    surveyed: Surveyed, costs: Sequence[float], *, seed: int = 0, windows: int = 2000
) -> tuple[PolicyPoint, ...]:
    """The plain thresholds of `surveyed.chosen`, and the others at the same rates of leaving.

    No exits stand first: nobody leaves, and nothing is given away. Raises CalibrationError.
    """
    held, thresholds = surveyed.held, surveyed.chosen.thresholds
    levels = held.levels(thresholds)
    rates = np.bincount(levels, minlength=held.exits + 1) / held.samples
    classes = int(max(held.predictions.max(), surveyed.test.predictions.max())) + 1
    by_class = class_thresholds(held, rates.tolist(), classes=classes)
    never = (CLOSED,) * held.exits

    def policy(name: str, random: np.random.Generator) -> ExitPolicy:
        if name == "CGR":
            return ConfidenceGuided(by_class, rates.tolist(), random)
        if name == "PCE":
            return PerClass(by_class)
        return Threshold(thresholds if name == "threshold" else never)

    found = []
    for name in ("no exits", "threshold", "PCE", "CGR"):
        random = np.random.default_rng(seed)
        known, victim = (
            _windows(policy(name, random), answers, random, windows)
            for answers in (held, surveyed.test)
        )
        order = random.permutation(surveyed.test.samples)
        test = surveyed.test.take(order)
        left = run(policy(name, random), test)
        given = test.given(left)
        counts = np.bincount(left, minlength=test.exits + 1) / test.samples
        found.append(
            PolicyPoint(
                policy=name,
                coverage=tuple(counts[:-1].tolist()),
                accuracy=float((given == test.labels).mean()),
                cost=float(counts @ np.asarray(costs, dtype=np.float64)),
                label_bits=information(left, test.labels, random),
                answer_bits=information(left, given, random),
                window_bits=_window_information(victim, random),
                guessed=attack(known, victim),
                by_chance=1 / np.unique(victim.dominant).size,
            )
        )
    return tuple(found)


def _nearest(outcome: Outcome) -> Point:
    return outcome.point if isinstance(outcome, Reached) else outcome.nearest


def _windows(
    policy: ExitPolicy, answers: Answers, random: np.random.Generator, count: int
) -> Windows:
    order, dominant = dominated_order(
        answers.labels, random, windows=count, length=_LENGTH, purity=_PURITY
    )
    return count_windows(run(policy, answers.take(order)), dominant, exits=answers.exits)


def _window_information(windows: Windows, random: np.random.Generator) -> float:
    base = _LENGTH + 1
    number = windows.counts @ (base ** np.arange(windows.counts.shape[1]))
    return information(number, windows.dominant, random)
