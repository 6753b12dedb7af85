"""How good detections are: average precision as COCO defines it.

Detections of a class are taken best first over all pictures; each goes to the free true box of
its picture that it overlaps most, if by the IoU asked for. Precision is made monotonous and
averaged at 101 recalls, then over the classes that have a true box. "mAP50" is this at IoU 0.5,
"mAP" the mean over 0.50, 0.55 .. 0.95. At most `MAX_DETECTIONS` count a picture. Boxes of crowds,
which COCO ignores, don't occur here. (Lin et al., ECCV 2014; https://cocodataset.org/#detection-eval)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headtail_models.vision.boxes import iou

Floats = NDArray[np.float32]

IOUS: Final = tuple(round(0.5 + 0.05 * step, 2) for step in range(10))
MAX_DETECTIONS: Final = 100
_RECALLS: Final = np.linspace(0.0, 1.0, 101)


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """`map50` at IoU 0.5, `map` over 0.5 .. 0.95; both 0..1, 0 where there is no true box."""

    map50: float
    map: float


def mean_average_precision(found: Sequence[Floats], true: Sequence[Floats]) -> Precision:
    """Precision over pictures, averaged over classes.

    `found` a picture: (n, 6) x1, y1, x2, y2, score, class; `true`: (m, 5) class, x1, y1, x2, y2.
    """
    labels = sorted({int(label) for boxes in true for label in boxes[:, 0]})
    if not labels:
        return Precision(map50=0.0, map=0.0)
    best = [_best(rows) for rows in found]
    table = np.array([_of_class(best, true, label) for label in labels]).mean(axis=0)
    return Precision(map50=float(table[0]), map=float(table.mean()))


def agreement(found: Sequence[Floats], reference: Sequence[Floats]) -> float:
    """Average precision at IoU 0.5 against another model's detections, pooled over the classes.

    1.0 when they are the same. `reference` rows are detections (n, 6) that count as true boxes:
    the same object must have the same class. Smoother than mAP50 on few pictures. 1.0 when
    neither found anything.
    """
    true = [np.column_stack([rows[:, 5], rows[:, :4]]) for rows in map(_best, reference)]
    best = [_best(rows) for rows in found]
    total = sum(len(boxes) for boxes in true)
    if total == 0:
        return 1.0 if not any(len(rows) for rows in best) else 0.0
    labels = sorted({int(label) for boxes in true for label in boxes[:, 0]})
    labels += sorted({int(label) for rows in best for label in rows[:, 5]} - set(labels))
    scores: list[Floats] = []
    hits: list[NDArray[np.bool_]] = []
    for label in labels:
        class_scores, class_hits = _matched(best, true, label)
        scores.append(class_scores)
        hits.append(class_hits[0])
    order = np.argsort(-np.concatenate(scores), kind="stable")
    return float(_average(np.concatenate(hits)[order][np.newaxis], total)[0])


def _best(rows: Floats) -> Floats:
    return rows[np.argsort(-rows[:, 4], kind="stable")[:MAX_DETECTIONS]]


def _of_class(found: Sequence[Floats], true: Sequence[Floats], label: int) -> NDArray[np.float64]:
    """Average precision of one class at each of IOUS: (10,)."""
    total = sum(int((boxes[:, 0] == label).sum()) for boxes in true)
    scores, hits = _matched(found, true, label)
    order = np.argsort(-scores, kind="stable")
    return _average(hits[:, order], total)


def _matched(
    found: Sequence[Floats], true: Sequence[Floats], label: int
) -> tuple[Floats, NDArray[np.bool_]]:
    """Scores (n,) of the detections of a class over all pictures, and whether each is a hit at
    each of IOUS: (10, n)."""
    scores: list[Floats] = []
    hits: list[NDArray[np.bool_]] = []
    for rows, boxes in zip(found, true, strict=True):
        mine = rows[rows[:, 5] == label]
        scores.append(mine[:, 4])
        hits.append(match(mine[:, :4], boxes[boxes[:, 0] == label][:, 1:5]))
    return np.concatenate(scores), np.concatenate(hits, axis=1)


def match(found: Floats, true: Floats) -> NDArray[np.bool_]:
    """Which detections (best first) of one picture and class are hits, at each of IOUS: (10, n)."""
    hits = np.zeros((len(IOUS), len(found)), dtype=bool)
    if not len(found) or not len(true):
        return hits
    overlaps = iou(found, true)
    for level, least in enumerate(IOUS):
        free = np.ones(len(true), dtype=bool)
        for index, row in enumerate(overlaps):
            candidates = np.where(free, row, -1.0)
            choice = int(candidates.argmax())
            if candidates[choice] >= least:
                free[choice] = False
                hits[level, index] = True
    return hits


def _average(hits: NDArray[np.bool_], total: int) -> NDArray[np.float64]:
    """Average precision for each row of hits, sorted by score, of `total` true boxes."""
    right = np.cumsum(hits, axis=1)
    recall = right / total
    precision = right / np.arange(1, hits.shape[1] + 1)
    precision = np.maximum.accumulate(precision[:, ::-1], axis=1)[:, ::-1]
    averages = np.zeros(len(hits))
    for row, (recalls, precisions) in enumerate(zip(recall, precision, strict=True)):
        places = np.searchsorted(recalls, _RECALLS, side="left")
        reached = places[places < len(precisions)]
        averages[row] = precisions[reached].sum() / len(_RECALLS)
    return averages
