"""The temperature of an exit: what its logits are divided by so that it is as sure as it is right.

Guo et al., "On Calibration of Modern Neural Networks", ICML 2017: section 4.2 for the temperature,
section 2 for the error that is left.
"""

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from headtail_models.exits.criteria import probabilities
from headtail_models.exits.errors import CalibrationError, EmptyCalibrationError

LEAST: Final = 0.05
MOST: Final = 20.0
"""Beyond these something is wrong with the logits, not with their scale."""
_ROUNDS: Final = 40
_GOLDEN: Final = (math.sqrt(5) - 1) / 2
_BINS: Final = 15


def fit_temperature(logits: NDArray[Any], labels: NDArray[Any]) -> float:
    """The temperature of logits (N, K) with the least negative log-likelihood of `labels` (N,).

    From `LEAST` to `MOST`. The likelihood has one peak in 1 / T, so a golden-section search in
    log T finds it to six digits. Raises CalibrationError.
    """
    values, right = _checked(logits, labels)
    low, high = math.log(LEAST), math.log(MOST)
    left, middle = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_middle = _loss(values, right, left), _loss(values, right, middle)
    for _ in range(_ROUNDS):
        if at_left < at_middle:
            high, middle, at_middle = middle, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = _loss(values, right, left)
        else:
            low, left, at_left = left, middle, at_middle
            middle = low + _GOLDEN * (high - low)
            at_middle = _loss(values, right, middle)
    return math.exp((low + high) / 2)


def calibration_error(
    logits: NDArray[Any], labels: NDArray[Any], *, temperature: float = 1.0
) -> float:
    """How far confidence and accuracy lie apart: over 15 bins of the largest probability, the mean
    difference (ECE). Raises CalibrationError."""
    values, right = _checked(logits, labels)
    shares = probabilities(values, temperature=temperature)
    sure, correct = shares.max(axis=1), shares.argmax(axis=1) == right
    bins = np.minimum((sure * _BINS).astype(np.int64), _BINS - 1)
    apart = np.bincount(bins, weights=sure - correct, minlength=_BINS)
    return float(np.abs(apart).sum() / right.size)


def _checked(
    logits: NDArray[Any], labels: NDArray[Any]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    if logits.ndim != 2 or labels.shape != logits.shape[:1]:
        raise CalibrationError(f"logits of shape {logits.shape}, labels of shape {labels.shape}")
    if labels.size == 0:
        raise EmptyCalibrationError("no samples to find a temperature on")
    values, right = logits.astype(np.float64), labels.astype(np.int64)
    if not np.isfinite(values).all():
        raise CalibrationError("the logits hold values that are not finite")
    if right.min() < 0 or right.max() >= values.shape[1]:
        raise CalibrationError(f"label {right.max()} of {values.shape[1]} classes")
    return values, right


def _loss(logits: NDArray[np.float64], labels: NDArray[np.int64], log_temperature: float) -> float:
    scaled = logits / math.exp(log_temperature)
    scaled -= scaled.max(axis=1, keepdims=True)
    own = scaled[np.arange(labels.size), labels]
    return float((np.log(np.exp(scaled).sum(axis=1)) - own).mean())
