import math

import numpy as np
import pytest

from headtail_models.exits.errors import CalibrationError, EmptyCalibrationError
from headtail_models.exits.filter_threshold import (
    RecallNotReachable,
    RecallReached,
    filter_threshold,
    recall_bound,
)


def scored(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    something = random.random(count) < 0.4
    return random.normal(size=count) + 2.0 * something, something


@pytest.mark.parametrize(
    ("passed", "frames", "bound"),
    # One-sided 95 % Clopper-Pearson limits; with no misses it is 0.05 ** (1 / n).
    [(10, 10, 0.05 ** (1 / 10)), (59, 59, 0.05 ** (1 / 59)), (9, 10, 0.60584), (0, 5, 0.0)],
)
def test_the_bound_of_a_recall(passed: int, frames: int, bound: float) -> None:
    assert recall_bound(passed, frames) == pytest.approx(bound, abs=1e-5)


def test_keeps_its_target() -> None:
    scores, something = scored(2000, 1)
    outcome = filter_threshold(scores, something, recall=0.95)
    assert isinstance(outcome, RecallReached)
    point = outcome.point
    assert point.recall == (scores[something] >= point.threshold).mean()
    assert point.dropped == (scores[~something] < point.threshold).mean()
    assert 0.95 <= point.recall_bound < point.recall
    # One miss more would be one too many.
    frames = int(something.sum())
    assert recall_bound(round(point.recall * frames) - 1, frames) < 0.95


def test_holds_on_new_frames_as_often_as_promised() -> None:
    kept = 0
    for seed in range(200):
        outcome = filter_threshold(*scored(400, seed), recall=0.9, sureness=0.9)
        assert isinstance(outcome, RecallReached)
        # Of frames with something in them the score is normal around 2.
        missed = 0.5 * (1 + math.erf((outcome.point.threshold - 2) / math.sqrt(2)))
        kept += missed <= 0.1
    assert 0.86 <= kept / 200 <= 0.98


def test_a_surer_promise_drops_less() -> None:
    scores, something = scored(2000, 3)
    dropped = []
    for sureness in (0.5, 0.9, 0.999):
        outcome = filter_threshold(scores, something, recall=0.95, sureness=sureness)
        assert isinstance(outcome, RecallReached)
        dropped.append(outcome.point.dropped)
    assert dropped == sorted(dropped, reverse=True)
    assert dropped[0] > dropped[-1]


def test_too_few_frames_say_how_many_are_needed() -> None:
    scores, something = np.arange(60.0), np.arange(60) < 58
    outcome = filter_threshold(scores, something, recall=0.95)
    assert isinstance(outcome, RecallNotReachable)
    assert outcome.needed == 59
    assert outcome.nearest.recall == 1.0
    assert outcome.nearest.dropped == 0.0
    enough = filter_threshold(scores, np.arange(60) < 59, recall=0.95)
    assert isinstance(enough, RecallReached)


def test_equal_scores_pass_together() -> None:
    scores = np.r_[np.full(95, 0.5), np.full(5, 0.1)]
    outcome = filter_threshold(scores, np.ones(100, dtype=bool), recall=0.95)
    assert isinstance(outcome, RecallReached)
    assert (outcome.point.threshold, outcome.point.recall) == (0.1, 1.0)
    assert outcome.point.dropped == 0.0


@pytest.mark.parametrize(
    ("scores", "something", "recall", "told"),
    [
        (np.zeros(3), np.ones(2, dtype=bool), 0.9, "shape"),
        (np.zeros(3), np.ones(3, dtype=bool), 1.0, "recall of 1.0"),
        (np.array([np.nan, 0, 0]), np.ones(3, dtype=bool), 0.9, "finite"),
    ],
)
def test_what_makes_no_sense(
    scores: np.ndarray, something: np.ndarray, recall: float, told: str
) -> None:
    with pytest.raises(CalibrationError, match=told):
        filter_threshold(scores, something, recall=recall)


def test_nothing_to_find() -> None:
    with pytest.raises(EmptyCalibrationError):
        filter_threshold(np.zeros(3), np.zeros(3, dtype=bool), recall=0.9)
