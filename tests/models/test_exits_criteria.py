import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from headtail_models.exits.criteria import CRITERIA, Criterion, confidence, leaves, probabilities

LOGITS = np.array([[0.0, 0, 0, 0], [2, 1, 0, -1], [100, 0, 0, 0], [5, 5, -50, -50]])


@pytest.mark.parametrize("criterion", CRITERIA)
def test_from_a_guess_to_certainty(criterion: Criterion) -> None:
    found = confidence(LOGITS, criterion=criterion)
    guess = 0.25 if criterion == "max-probability" else 0.0
    assert found[0] == pytest.approx(guess)
    assert found[2] == pytest.approx(1.0)
    assert found[0] < found[1] < found[2]


def test_each_criterion_by_hand() -> None:
    shares = np.exp(LOGITS[1]) / np.exp(LOGITS[1]).sum()
    entropy = -(shares * np.log(shares)).sum()
    by_hand = {
        "entropy": 1 - entropy / np.log(4),
        "max-probability": shares[0],
        "margin": shares[0] - shares[1],
    }
    for criterion in CRITERIA:
        assert confidence(LOGITS, criterion=criterion)[1] == pytest.approx(by_hand[criterion])
    assert confidence(LOGITS, criterion="entropy")[3] == pytest.approx(0.5)
    assert confidence(LOGITS, criterion="margin")[3] == pytest.approx(0.0)


@given(
    logits=arrays(np.float32, (3, 5), elements=st.floats(-1e4, 1e4, width=32)),
    criterion=st.sampled_from(CRITERIA),
)
def test_lies_within_0_and_1_and_a_warmer_exit_is_less_sure(
    logits: np.ndarray, criterion: Criterion
) -> None:
    cold, warm = (
        confidence(logits, criterion=criterion, temperature=temperature) for temperature in (1, 2)
    )
    for found in (cold, warm):
        assert ((found >= 0) & (found <= 1)).all()
    if criterion != "margin":  # a third class may come nearer to both
        assert (warm <= cold + 1e-9).all()


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_never_leaves(criterion: Criterion, value: float) -> None:
    logits = LOGITS.copy()
    logits[2, 1] = value
    found = confidence(logits, criterion=criterion)
    assert not leaves(found, 0.0)[2]
    assert np.isfinite(found[[0, 1, 3]]).all()


def test_leaves_at_the_threshold_and_above() -> None:
    sure = np.array([0.2, 0.5, 1.0])
    assert leaves(sure, 0.5).tolist() == [False, True, True]
    assert not leaves(sure, 1.01).any()


@pytest.mark.parametrize("shape", [(4,), (2, 1), (2, 3, 4)])
def test_other_shapes(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="expected"):
        confidence(np.zeros(shape), criterion="entropy")


@pytest.mark.parametrize("temperature", [0.0, -1.0, np.inf, np.nan])
def test_temperatures_that_make_no_sense(temperature: float) -> None:
    with pytest.raises(ValueError, match="temperature"):
        probabilities(LOGITS, temperature=temperature)


def test_an_unknown_criterion() -> None:
    with pytest.raises(ValueError, match="known: entropy"):
        confidence(LOGITS, criterion="luck")  # type: ignore[arg-type]
