"""Quantiser ranges of a crossing tensor, from what it was on samples."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from headtail_fabric.codec import Quantiser
from headtail_models.zoo.ranges import Histogram, best_ranges

BITS: Final = {"q8": 8, "q4": 4}
"""By base codec id."""
_CLIPPED: Final = 1e-3
_MAX_VALUES: Final = 16_384


def can_quantise(dtype: str, shape: tuple[int, ...]) -> bool:
    """Whether the quantising codecs take a tensor of that type and shape (batch axis first)."""
    return dtype == "float32" and len(shape) >= 2


def searched_quantisers(seen: Sequence[NDArray[Any]]) -> dict[str, Quantiser]:
    """A quantiser by base codec id for a tensor (n, C, ...) seen several times, with the ranges
    that lose least (`zoo.ranges`): 10 ms a channel.

    Empty when a value was not finite: such a tensor can't be quantised.
    """
    rows = _rows(seen)
    if not rows:
        return {}
    histogram = Histogram(
        np.min([row.min(axis=1) for row in rows], axis=0),
        np.max([row.max(axis=1) for row in rows], axis=0),
    )
    for row in rows:
        histogram.add(row)
    found = {base: best_ranges(histogram, bits) for base, bits in BITS.items()}
    return {base: _quantiser(*ends) for base, ends in found.items()}


def clipped_quantisers(seen: Sequence[NDArray[Any]]) -> dict[str, Quantiser]:
    """The same with ranges that clip one value in a thousand: fast, and good for sizes.

    After layers 3 to 12 of yolov3-tiny a frame so has 2 to 7 % more bytes in q8+zstd than with the
    searched ranges, and 2 to 10 % more in q4+zstd.
    """
    rows = _rows(seen)
    if not rows:
        return {}
    values = np.concatenate(rows, axis=1)
    values = values[:, :: max(1, values.shape[1] // _MAX_VALUES)]
    low, high = np.quantile(values, (_CLIPPED / 2, 1 - _CLIPPED / 2), axis=1)
    return dict.fromkeys(BITS, _quantiser(low, high))


def _rows(seen: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """Frames as (C, values); none at all when a value is not finite."""
    frames = [frame for tensor in seen for frame in tensor]
    if not all(frame.size and np.isfinite(frame).all() for frame in frames):
        return []
    return [frame.reshape(frame.shape[0], -1) for frame in frames]


def _quantiser(low: NDArray[Any], high: NDArray[Any]) -> Quantiser:
    return Quantiser(low.astype(np.float32), high.astype(np.float32))
