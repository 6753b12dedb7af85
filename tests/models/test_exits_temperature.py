import numpy as np
import pytest

from headtail_models.exits.criteria import probabilities
from headtail_models.exits.errors import CalibrationError, EmptyCalibrationError
from headtail_models.exits.temperature import (
    LEAST,
    MOST,
    calibration_error,
    fit_temperature,
)


def drawn(count: int, *, scale: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Logits, and labels drawn from their softmax, so that 1 is the right temperature; then the
    logits are multiplied by `scale`."""
    random = np.random.default_rng(seed)
    logits = random.normal(scale=2, size=(count, 6))
    draws = random.random((count, 1))
    labels = (probabilities(logits).cumsum(axis=1) < draws).sum(axis=1)
    return scale * logits, np.minimum(labels, 5)


@pytest.mark.parametrize("scale", [0.3, 1.0, 4.0])
def test_finds_the_scale_that_was_applied(scale: float) -> None:
    logits, labels = drawn(20_000, scale=scale)
    assert fit_temperature(logits, labels) == pytest.approx(scale, rel=0.03)


def test_no_other_temperature_is_likelier() -> None:
    logits, labels = drawn(500, scale=2.5)

    def loss(temperature: float) -> float:
        shares = probabilities(logits, temperature=temperature)
        return float(-np.log(shares[np.arange(500), labels]).mean())

    best = fit_temperature(logits, labels)
    assert all(loss(best) <= loss(best * factor) + 1e-12 for factor in (0.5, 0.99, 1.01, 2))


def test_a_calibrated_exit_is_as_sure_as_it_is_right() -> None:
    logits, labels = drawn(20_000, scale=3)
    fitted = fit_temperature(logits, labels)
    assert calibration_error(logits, labels) > 0.1
    assert calibration_error(logits, labels, temperature=fitted) < 0.015


def test_stays_within_its_ends() -> None:
    right = np.eye(3)[np.arange(300) % 3]
    labels = np.arange(300) % 3
    assert fit_temperature(right, labels) == pytest.approx(LEAST, rel=1e-3)
    assert fit_temperature(1e3 * right, (labels + 1) % 3) == pytest.approx(MOST, rel=1e-3)


@pytest.mark.parametrize(
    ("logits", "labels", "told"),
    [
        (np.zeros((4, 3)), np.zeros(3, dtype=int), "shape"),
        (np.full((4, 3), np.nan), np.zeros(4, dtype=int), "finite"),
        (np.zeros((4, 3)), np.full(4, 3), "label 3 of 3"),
        (np.zeros((4, 3)), np.full(4, -1), "label"),
    ],
)
def test_samples_that_are_wrong(logits: np.ndarray, labels: np.ndarray, told: str) -> None:
    with pytest.raises(CalibrationError, match=told):
        fit_temperature(logits, labels)


def test_no_samples() -> None:
    with pytest.raises(EmptyCalibrationError):
        fit_temperature(np.zeros((0, 3)), np.zeros(0, dtype=int))
