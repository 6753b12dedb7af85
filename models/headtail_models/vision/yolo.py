"""From the raw maps of a YOLOv3 detector to boxes.

    x = (column + sigmoid(t_x)) * stride      w = anchor_w * exp(t_w)
    y = (row    + sigmoid(t_y)) * stride      h = anchor_h * exp(t_h)
    score of class c = sigmoid(t_object) * sigmoid(t_c)

(Redmon and Farhadi, "YOLOv3: An Incremental Improvement", 2018, section 2.1; classes are
independent, so one box may carry several.)
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from headtail_models.bundle.manifest import YoloScale

_MAX_LOG_SIDE: Final = 10.0
"""Sides beyond anchor * e**10 pixels mean nothing and must not become infinite."""


def decode(
    maps: Sequence[NDArray[Any]],
    scales: Sequence[YoloScale],
    *,
    classes: int,
    threshold: float,
) -> NDArray[np.float32]:
    """Rows (n, 6) x1, y1, x2, y2 (network pixels), score, class of all with score >= `threshold`.

    `maps` are one picture's outputs in the order of `scales`, each (anchors * (5 + classes),
    rows, columns). What is not finite is left out. Raises ValueError when a shape is wrong.
    """
    rows = [
        _decode_scale(tensor, scale, classes, threshold)
        for tensor, scale in zip(maps, scales, strict=True)
    ]
    return np.concatenate(rows) if rows else np.empty((0, 6), dtype=np.float32)


def _decode_scale(
    tensor: NDArray[Any], scale: YoloScale, classes: int, threshold: float
) -> NDArray[np.float32]:
    anchors = np.asarray(scale.anchors, dtype=np.float32)
    if tensor.ndim != 3 or tensor.shape[0] != len(anchors) * (5 + classes):
        raise ValueError(
            f"map {scale.output!r} of shape {tensor.shape}, expected "
            f"({len(anchors) * (5 + classes)}, rows, columns)"
        )
    cells = tensor.reshape(len(anchors), 5 + classes, *tensor.shape[1:])
    # A class score never exceeds the objectness, and few cells pass: the sigmoids and
    # exponentials below see a handful of cells instead of all.
    anchor, row, column = np.nonzero(cells[:, 4] >= _logit(threshold))
    found = cells[anchor, :, row, column].astype(np.float32, copy=False)
    scores = _sigmoid(found[:, 4:5]) * _sigmoid(found[:, 5:])
    cell, label = np.nonzero(scores >= threshold)
    centre = _sigmoid(found[:, 0:2])
    centre[:, 0] += column
    centre[:, 1] += row
    centre *= np.float32(scale.stride)
    half = np.exp(np.minimum(found[:, 2:4], _MAX_LOG_SIDE)) * (anchors[anchor] / 2)
    detections = np.column_stack(
        [(centre - half)[cell], (centre + half)[cell], scores[cell, label], label]
    ).astype(np.float32, copy=False)
    return detections[np.isfinite(detections).all(axis=1)]


def _sigmoid(values: NDArray[np.float32]) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):
        result: NDArray[np.float32] = np.reciprocal(1 + np.exp(-values))
    return result


def _logit(probability: float) -> float:
    if probability <= 0:
        return -np.inf
    # A shade lower, so that rounding never hides a cell which the exact test would let pass.
    return float(np.log(probability / max(1 - probability, 1e-7))) - 1e-4
