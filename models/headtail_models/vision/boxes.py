"""Arithmetic on boxes: rows x1, y1, x2, y2."""

import numpy as np
from numpy.typing import NDArray


def areas(boxes: NDArray[np.float32]) -> NDArray[np.float32]:
    """Areas (n,); 0 for a box that is inside out."""
    sides = np.maximum(boxes[:, 2:4] - boxes[:, 0:2], 0)
    product: NDArray[np.float32] = sides[:, 0] * sides[:, 1]
    return product


def iou(one: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float32]:
    """Intersection over union of each of `one` (n, 4) with each of `other` (m, 4): (n, m).

    0 where both are empty.
    """
    corner = np.maximum(one[:, None, :2], other[None, :, :2])
    opposite = np.minimum(one[:, None, 2:4], other[None, :, 2:4])
    sides = np.maximum(opposite - corner, 0)
    shared = sides[..., 0] * sides[..., 1]
    union = areas(one)[:, None] + areas(other)[None, :] - shared
    overlap: NDArray[np.float32] = np.divide(
        shared, union, out=np.zeros_like(shared), where=union > 0
    )
    return overlap
