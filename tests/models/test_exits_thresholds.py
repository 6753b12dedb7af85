from itertools import product

import numpy as np
import pytest

from headtail_models.exits.answers import Answers
from headtail_models.exits.errors import CalibrationError, EmptyCalibrationError
from headtail_models.exits.thresholds import (
    CLOSED,
    AccuracyBudget,
    ComputeBudget,
    NotReachable,
    Point,
    Reached,
    choose,
    measure,
)

COSTS = (1.0, 2.0, 4.0)


def answers(samples: int = 400, *, strengths: tuple[float, ...] = (1.5, 2.2, 3.0)) -> Answers:
    """Exits that are the better the later, by noisy logits."""
    random = np.random.default_rng(5)
    labels = random.integers(0, 6, samples)
    easy = random.normal(size=samples)
    logits = []
    for strength in strengths:
        row = random.normal(size=(samples, 6))
        row[np.arange(samples), labels] += strength + easy
        logits.append(row)
    return Answers.of(
        logits[:-1],
        logits[-1],
        labels,
        criterion="entropy",
        temperatures=[1.0] * (len(strengths) - 1),
    )


def every_point(given: Answers) -> list[Point]:
    """All that thresholds can do, by trying each pair."""
    places = [[*np.unique(row)[::8], CLOSED] for row in given.confidences]
    return [measure(given, COSTS, pair) for pair in product(*places)]


def test_measure_by_hand() -> None:
    given = Answers(
        confidences=np.array([[0.9, 0.1, 0.5, 0.2], [0.0, 0.8, 1.0, 0.3]]),
        predictions=np.array([[1, 0, 2, 0], [1, 1, 0, 0], [1, 2, 0, 3]]),
        labels=np.array([1, 2, 2, 3]),
    )
    point = measure(given, (1, 2, 4), (0.5, 0.8))
    # The first and third leave at exit 0 (both right), the second at exit 1 (wrong), one stays.
    assert given.levels((0.5, 0.8)).tolist() == [0, 1, 0, 2]
    assert given.given(given.levels((0.5, 0.8))).tolist() == [1, 1, 2, 3]
    assert point == Point(
        thresholds=(0.5, 0.8),
        coverage=(0.5, 0.25),
        accuracy=0.75,
        drop=0.0,
        drops=(-0.5, 1.0),
        cost=2.0,
    )
    assert point.early == 0.75


def test_closed_exits_are_the_whole_network() -> None:
    given = answers()
    point = measure(given, COSTS, (CLOSED, CLOSED))
    assert (point.coverage, point.drop, point.cost) == ((0, 0), 0, 4)
    assert point.accuracy == given.correct[-1].mean()


@pytest.mark.parametrize("max_drop", [0.0, 0.01, 0.05])
def test_an_accuracy_budget_costs_no_more_than_any_that_keeps_it(max_drop: float) -> None:
    given = answers()
    outcome = choose(given, COSTS, AccuracyBudget(max_drop=max_drop))
    assert isinstance(outcome, Reached)
    assert outcome.point.drop <= max_drop + 1e-9
    kept = [point.cost for point in every_point(given) if point.drop <= max_drop + 1e-9]
    # The grid of the first exit is a little coarser than all that is possible.
    assert outcome.point.cost <= min(kept) * 1.01


@pytest.mark.parametrize("mean_cost", [1.5, 2.5, 4.0])
def test_a_compute_budget_is_as_right_as_any_that_keeps_it(mean_cost: float) -> None:
    given = answers()
    outcome = choose(given, COSTS, ComputeBudget(mean_cost=mean_cost))
    assert isinstance(outcome, Reached)
    assert outcome.point.cost <= mean_cost + 1e-9
    kept = [point.drop for point in every_point(given) if point.cost <= mean_cost]
    assert outcome.point.drop <= min(kept) + 0.005


def test_being_sure_costs_coverage() -> None:
    given = answers()
    points = []
    for sureness in (0.5, 0.9, 0.99):
        outcome = choose(given, COSTS, AccuracyBudget(max_drop=0.02, sureness=sureness))
        assert isinstance(outcome, Reached)
        points.append(outcome.point)
    assert points[0].cost < points[1].cost < points[2].cost
    assert points[2].drop < points[0].drop


def test_too_little_computation_says_what_is_nearest() -> None:
    outcome = choose(answers(), COSTS, ComputeBudget(mean_cost=0.5))
    assert isinstance(outcome, NotReachable)
    assert outcome.nearest.cost == 1.0
    assert outcome.nearest.coverage == (1.0, 0.0)
    assert outcome.reason == "the least cost is 1 a sample, not 0.5"


def test_more_accuracy_than_there_is_says_what_is_nearest() -> None:
    given = answers()
    outcome = choose(given, COSTS, AccuracyBudget(max_drop=-0.5))
    assert isinstance(outcome, NotReachable)
    assert outcome.nearest.drop <= min(point.drop for point in every_point(given)) + 0.005
    assert "the smallest drop is" in outcome.reason


def test_no_threshold_below_the_floor() -> None:
    given = answers()
    free = choose(given, COSTS, AccuracyBudget(max_drop=0.03))
    assert isinstance(free, Reached)
    floor = tuple(threshold + 0.05 for threshold in free.point.thresholds)
    held = choose(given, COSTS, AccuracyBudget(max_drop=0.03), at_least=floor)
    assert isinstance(held, Reached)
    assert all(t >= least for t, least in zip(held.point.thresholds, floor, strict=True))
    assert held.point.cost > free.point.cost


@pytest.mark.parametrize("strengths", [(1.5, 3.0), (1.0, 1.5, 2.0, 2.5, 3.0)])
def test_from_one_exit_to_four(strengths: tuple[float, ...]) -> None:
    given = answers(120, strengths=strengths)
    costs = [float(level + 1) for level in range(len(strengths))]
    outcome = choose(given, costs, AccuracyBudget(max_drop=0.02))
    assert isinstance(outcome, Reached)
    assert outcome.point.drop <= 0.02 + 1e-9
    assert outcome.point.early > 0.2


def test_samples_of_one_confidence_leave_together() -> None:
    given = Answers(
        confidences=np.full((1, 10), 0.5),
        predictions=np.stack([np.r_[np.zeros(8), np.ones(2)], np.zeros(10)]).astype(np.int64),
        labels=np.zeros(10, dtype=np.int64),
    )
    outcome = choose(given, (1.0, 2.0), AccuracyBudget(max_drop=0.1))
    assert isinstance(outcome, Reached)
    assert outcome.point.coverage == (0.0,)


def test_what_is_not_finite_stays_to_the_end() -> None:
    given = answers(50)
    confidences = given.confidences.copy()
    confidences[:, :10] = -np.inf
    broken = Answers(confidences=confidences, predictions=given.predictions, labels=given.labels)
    outcome = choose(broken, COSTS, ComputeBudget(mean_cost=1.0))
    assert isinstance(outcome, NotReachable)
    assert outcome.nearest.early == 0.8


@pytest.mark.parametrize(
    ("costs", "told"),
    [((1.0, 2.0), "2 costs"), ((1.0, 1.0, 2.0), "grow"), ((-1.0, 1.0, 2.0), "grow")],
)
def test_costs_that_make_no_sense(costs: tuple[float, ...], told: str) -> None:
    with pytest.raises(CalibrationError, match=told):
        choose(answers(20), costs, ComputeBudget(mean_cost=2))


def test_numbers_that_do_not_fit() -> None:
    with pytest.raises(CalibrationError, match="1 thresholds"):
        measure(answers(20), COSTS, (0.5,))
    with pytest.raises(CalibrationError, match="least thresholds"):
        choose(answers(20), COSTS, ComputeBudget(mean_cost=2), at_least=(0.5,))
    many = answers(20, strengths=(1.0,) * 6)
    with pytest.raises(CalibrationError, match="at most 4"):
        choose(many, tuple(range(1, 7)), ComputeBudget(mean_cost=2))


def test_answers_that_do_not_fit() -> None:
    logits, labels = np.zeros((4, 3)), np.zeros(4, dtype=np.int64)
    with pytest.raises(CalibrationError, match="not the same"):
        Answers.of([np.zeros((4, 2))], logits, labels, criterion="margin", temperatures=[1.0])
    with pytest.raises(CalibrationError, match="temperatures"):
        Answers.of([logits], logits, labels, criterion="margin", temperatures=[])
    with pytest.raises(CalibrationError, match="labels"):
        Answers.of([logits], logits, labels[:2], criterion="margin", temperatures=[1.0])
    with pytest.raises(EmptyCalibrationError):
        Answers.of([logits[:0]], logits[:0], labels[:0], criterion="margin", temperatures=[1.0])
