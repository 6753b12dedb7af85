"""Synthetic tensors that are like a network's features: smooth, correlated, few large values."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from headtail_fabric.rans.alphabet import Alphabet

_SMOOTHINGS: Final = 6


def levels(shape: tuple[int, int, int, int], alphabet: Alphabet, *, seed: int) -> NDArray[np.int16]:
    """Levels (N x C x H x W). Later channels hold less and follow the one before."""
    random = np.random.default_rng(seed)
    values = random.laplace(size=shape)
    for _ in range(_SMOOTHINGS):
        for axis in (2, 3):
            values += np.roll(values, 1, axis)
    values[:, 1:] += 0.5 * values[:, :-1]
    values *= alphabet.count / 8 / max(float(values.std()), 0.1)
    values /= np.sqrt(1 + np.arange(shape[1]))[:, np.newaxis, np.newaxis]
    middle = alphabet.low + alphabet.count // 2
    high = alphabet.low + alphabet.count - 1
    result: NDArray[np.int16] = np.clip(np.rint(values) + middle, alphabet.low, high).astype(
        np.int16
    )
    return result
