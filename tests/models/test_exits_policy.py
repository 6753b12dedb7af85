import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headtail_models.exits.answers import Answers
from headtail_models.exits.errors import CalibrationError
from headtail_models.exits.policy import (
    LONGEST,
    SHORTEST,
    ConfidenceGuided,
    PerClass,
    Threshold,
    class_thresholds,
    run,
)
from headtail_models.exits.thresholds import CLOSED

RATES = (0.3, 0.4, 0.3)


def answers(samples: int = 3000, *, classes: int = 4) -> Answers:
    """The higher its number, the less sure the exits are of a class."""
    random = np.random.default_rng(2)
    labels = random.integers(0, classes, samples)
    sure = random.random((2, samples)) ** (1 + labels)
    predictions = np.tile(labels, (3, 1))
    return Answers(confidences=sure, predictions=predictions, labels=labels)


def shares(levels: np.ndarray) -> np.ndarray:
    return np.bincount(levels, minlength=3) / levels.size


def test_a_threshold_leaves_as_the_answers_say() -> None:
    seen = answers(200)
    assert (run(Threshold((0.4, 0.6)), seen) == seen.levels((0.4, 0.6))).all()


def test_per_class_every_class_leaves_equally_often() -> None:
    seen = answers()
    per_class = run(PerClass(class_thresholds(seen, RATES, classes=4)), seen)
    plain = run(Threshold((0.4, 0.3)), seen)
    for label in range(4):
        assert shares(per_class[seen.labels == label]) == pytest.approx(RATES, abs=0.005)
    assert np.ptp([shares(plain[seen.labels == label])[0] for label in range(4)]) > 0.3


def test_a_class_that_is_never_predicted_has_a_closed_exit() -> None:
    found = class_thresholds(answers(), RATES, classes=5)
    assert (found[:, 4] == CLOSED).all()
    assert (found[:, :4] <= 1).all()


def test_rates_of_nothing_and_all() -> None:
    seen = answers(100)
    for rates in ((0.0, 0.0, 1.0), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0)):
        thresholds = class_thresholds(seen, rates, classes=4)
        assert shares(run(PerClass(thresholds), seen)).tolist() == list(rates)
        guided = ConfidenceGuided(thresholds, rates, np.random.default_rng(0))
        assert shares(run(guided, seen)).tolist() == list(rates)


class Log:
    """Remembers the lengths of the windows that a policy drew."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self.lengths: list[int] = []

    def integers(self, low: int, high: int) -> int:
        self.lengths.append(int(self._random.integers(low, high)))
        return self.lengths[-1]

    def random(self) -> float:
        return float(self._random.random())


@settings(max_examples=25)
@given(
    seed=st.integers(0, 2**32 - 1),
    rates=st.sampled_from([RATES, (0.5, 0.0, 0.5), (0.1, 0.85, 0.05)]),
)
def test_guided_every_window_has_its_quota(seed: int, rates: tuple[float, ...]) -> None:
    seen, log = answers(300), Log(seed)
    thresholds = class_thresholds(seen, rates, classes=4)
    levels = run(ConfidenceGuided(thresholds, rates, log), seen)  # type: ignore[arg-type]
    start = 0
    for length in log.lengths:
        assert SHORTEST <= length <= LONGEST
        window = levels[start : start + length]
        if window.size == length:
            counts = np.bincount(window, minlength=3)
            assert (np.abs(counts - np.array(rates) * length) < 1).all()
        start += length
    assert start >= 300


def test_guided_the_rates_are_right_on_average() -> None:
    seen = answers()
    thresholds = class_thresholds(seen, RATES, classes=4)
    levels = run(ConfidenceGuided(thresholds, RATES, np.random.default_rng(1)), seen)
    assert shares(levels) == pytest.approx(RATES, abs=0.01)


def test_guided_the_unsure_go_on_more_often() -> None:
    """The published C code has it the wrong way round, its Python the right one."""
    seen = answers()
    thresholds = class_thresholds(seen, RATES, classes=4)
    levels = run(ConfidenceGuided(thresholds, RATES, np.random.default_rng(1)), seen)
    sure = seen.confidences[0] >= thresholds[0, seen.predictions[0]]
    assert (levels[sure] == 0).mean() > (levels[~sure] == 0).mean() + 0.2


def test_guided_in_a_long_run_of_one_class_confidence_counts_ever_less() -> None:
    samples = 4000
    sure = np.tile(np.random.default_rng(3).random(samples), (2, 1))
    predictions = np.zeros((3, samples), dtype=np.int64)
    same = Answers(confidences=sure, predictions=predictions, labels=predictions[0])
    changing = Answers(
        confidences=sure,
        predictions=np.tile(np.arange(samples) % 2, (3, 1)),
        labels=predictions[0],
    )
    effects = []
    for seen in (same, changing):
        thresholds = class_thresholds(seen, RATES, classes=2)
        policy = ConfidenceGuided(thresholds, RATES, np.random.default_rng(1))
        levels = run(policy, seen)
        high = sure[0] >= thresholds[0, seen.predictions[0]]
        effects.append((levels[high] == 0).mean() - (levels[~high] == 0).mean())
    assert abs(effects[0]) < 0.08
    assert effects[1] > 0.25


def test_guided_shows_its_state() -> None:
    seen = answers(1)
    thresholds = np.full((2, 4), 0.5)
    policy = ConfidenceGuided(thresholds, (0.0, 0.0, 1.0), np.random.default_rng(4))
    run(policy, seen)
    assert repr(policy).startswith("ConfidenceGuided(left [0, 0, ")
    assert repr(policy).endswith("bias 0.5, 0.5)")
    assert repr(Threshold((0.5, 0.25))) == "Threshold(0.5, 0.25)"
    assert repr(PerClass(thresholds)) == "PerClass(2 exits, 4 classes)"


@pytest.mark.parametrize("rates", [(0.5, 0.5), (0.5, 0.6, 0.1), (1.2, -0.2, 0.0)])
def test_rates_that_are_no_shares(rates: tuple[float, ...]) -> None:
    with pytest.raises(CalibrationError, match="rates"):
        ConfidenceGuided(np.full((2, 4), 0.5), rates, np.random.default_rng(0))
