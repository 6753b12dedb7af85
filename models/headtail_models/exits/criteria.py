"""How sure an exit is of its answer, as one number a sample, and the rule that it leaves by.

Entropy: Teerapittayanon et al., "BranchyNet", ICPR 2016, section III-D; the temperature: Guo et
al., "On Calibration of Modern Neural Networks", ICML 2017, section 4.2.
"""

from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

Criterion = Literal["entropy", "max-probability", "margin"]
CRITERIA: Final[tuple[Criterion, ...]] = get_args(Criterion)
Floats = NDArray[np.float64]


def probabilities(logits: NDArray[Any], *, temperature: float = 1.0) -> Floats:
    """Softmax (N, K) of logits (N, K) over `temperature`. Raises ValueError for another shape,
    fewer than two classes, or a temperature that is not positive."""
    if logits.ndim != 2 or logits.shape[1] < 2:
        raise ValueError(f"logits of shape {logits.shape}, expected (N, K) with K >= 2")
    if not 0 < temperature < np.inf:
        raise ValueError(f"a temperature is positive, not {temperature}")
    scaled = logits.astype(np.float64) / temperature
    with np.errstate(invalid="ignore"):  # infinities become NaN: see `confidence`
        scaled -= scaled.max(axis=1, keepdims=True)
    shares: Floats = np.exp(scaled)
    shares /= shares.sum(axis=1, keepdims=True)
    return shares


def confidence(logits: NDArray[Any], *, criterion: Criterion, temperature: float = 1.0) -> Floats:
    """Confidence (N,) of logits (N, K): 0 is a guess, 1 is certain, whatever the criterion.

    `entropy`: 1 - H / log K; `max-probability`: the largest; `margin`: the largest less the second.
    A sample with a logit that is not finite has -inf: it leaves at no threshold. Raises ValueError
    as `probabilities` does.
    """
    shares = probabilities(logits, temperature=temperature)
    if criterion == "entropy":
        terms = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
        found = 1 + (shares * terms).sum(axis=1) / np.log(shares.shape[1])
    elif criterion == "max-probability":
        found = shares.max(axis=1)
    elif criterion == "margin":
        second, first = np.partition(shares, -2, axis=1)[:, -2:].T
        found = first - second
    else:
        raise ValueError(f"unknown criterion {criterion!r}, known: {', '.join(CRITERIA)}")
    return np.where(np.isfinite(logits).all(axis=1), np.clip(found, 0.0, 1.0), -np.inf)


def leaves(confidence: NDArray[Any], threshold: float) -> NDArray[np.bool_]:
    """Which samples (N,) leave: those at least as sure as `threshold`; above 1, none does."""
    out: NDArray[np.bool_] = np.asarray(confidence) >= threshold
    return out
