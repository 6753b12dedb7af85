"""Quantiser ranges of a crossing tensor, from what it was on samples."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from headtail_fabric.codec import Quantiser
from headtail_models.zoo.ranges import Histogram, best_ranges

BITS: Final = {"q8": 8, "q4": 4}
"""By base codec id."""


def can_quantise(dtype: str, shape: tuple[int, ...]) -> bool:
    """Whether the quantising codecs take a tensor of that type and shape (batch axis first)."""
    return dtype == "float32" and len(shape) >= 2


def quantisers_for(seen: Sequence[NDArray[Any]]) -> dict[str, Quantiser]:
    """A quantiser by base codec id for a tensor (n, C, ...) seen several times.

    Empty when a value was not finite: such a tensor can't be quantised.
    """
    frames = [frame for tensor in seen for frame in tensor]
    if not frames or not all(np.isfinite(frame).all() for frame in frames):
        return {}
    rows = [frame.reshape(frame.shape[0], -1) for frame in frames]
    histogram = Histogram(
        np.min([row.min(axis=1) for row in rows], axis=0),
        np.max([row.max(axis=1) for row in rows], axis=0),
    )
    for row in rows:
        histogram.add(row)
    return {base: _quantiser(histogram, bits) for base, bits in BITS.items()}


def _quantiser(histogram: Histogram, bits: int) -> Quantiser:
    low, high = best_ranges(histogram, bits)
    return Quantiser(low.astype(np.float32), high.astype(np.float32))
