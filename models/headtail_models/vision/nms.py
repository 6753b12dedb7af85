"""Non-maximum suppression within each class."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from headtail_models.vision.boxes import iou

MAX_CANDIDATES: Final = 4096
"""The best so many are looked at. Real pictures give a few hundred at most; this bounds what a
forged tensor, which sees an object in every cell, costs."""


def suppress(detections: NDArray[np.float32], *, max_iou: float, limit: int) -> NDArray[np.float32]:
    """The rows (n, 6) x1, y1, x2, y2, score, class that survive, best score first.

    Greedy: a row goes when a better row of its class that was kept overlaps it by more than
    `max_iou`. Rows of equal score keep the order they came in. At most `limit` rows.
    """
    ordered = detections[np.argsort(-detections[:, 4], kind="stable")[:MAX_CANDIDATES]]
    boxes, classes = ordered[:, :4], ordered[:, 5]
    alive = np.ones(len(ordered), dtype=bool)
    kept: list[int] = []
    for index in range(len(ordered)):
        if not alive[index]:
            continue
        kept.append(index)
        if len(kept) == limit:
            break
        rivals = (
            index
            + 1
            + np.flatnonzero(alive[index + 1 :] & (classes[index + 1 :] == classes[index]))
        )
        if rivals.size:
            alive[rivals] = iou(boxes[index : index + 1], boxes[rivals])[0] <= max_iou
    return ordered[kept]
