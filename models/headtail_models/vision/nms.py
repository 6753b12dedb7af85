"""Non-maximum suppression within each class."""

import numpy as np
from numpy.typing import NDArray

from headtail_models.vision.boxes import iou


def suppress(detections: NDArray[np.float32], *, max_iou: float, limit: int) -> NDArray[np.float32]:
    """The rows (n, 6) x1, y1, x2, y2, score, class that survive, best score first.

    Greedy: a row goes when a better row of its class that was kept overlaps it by more than
    `max_iou`. Rows of equal score keep the order they came in. At most `limit` rows.
    """
    ordered = detections[np.argsort(-detections[:, 4], kind="stable")]
    kept = np.zeros(len(ordered), dtype=bool)
    classes = ordered[:, 5]
    for label in np.unique(classes):
        rows = np.flatnonzero(classes == label)
        kept[rows[_greedy(ordered[rows, :4], max_iou, limit)]] = True
    return ordered[kept][:limit]


def _greedy(boxes: NDArray[np.float32], max_iou: float, limit: int) -> list[int]:
    """Indices of the boxes of one class, best first, that survive; row by row, so that memory
    stays linear in their number."""
    kept: list[int] = []
    alive = np.ones(len(boxes), dtype=bool)
    for index in range(len(boxes)):
        if not alive[index]:
            continue
        kept.append(index)
        if len(kept) == limit:
            break
        rest = index + 1 + np.flatnonzero(alive[index + 1 :])
        alive[rest] = iou(boxes[index : index + 1], boxes[rest])[0] <= max_iou
    return kept
