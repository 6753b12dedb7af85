"""How good a detector's answers are, as in `vision.average_precision`, for weighted pictures.

Matching boxes is a matter of one picture, so it is done once. What is left for every draw of a
bootstrap is a weighted sum over the detections, sorted once.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from headtail_fabric.codec.base import Array
from headtail_models.bundle.manifest import DetectTask, Manifest
from headtail_models.entrance import Place
from headtail_models.rate.tally import Answer, Values, Weights
from headtail_models.task import DETECTIONS, task_for
from headtail_models.vision.average_precision import IOUS, MAX_DETECTIONS, match

Floats = NDArray[np.float32]

_THRESHOLD: Final = 0.005
"""Average precision wants the unlikely detections too."""
_RECALLS: Final = np.linspace(0.0, 1.0, 101)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ranking:
    """Detections over all pictures, best first: the picture of each (n,), whether it is a hit at
    each IoU (n, levels); true boxes a picture (P,)."""

    pictures: NDArray[np.intp]
    hits: NDArray[np.float64]
    true: NDArray[np.float64]

    def precision(self, weights: Weights, levels: int) -> NDArray[np.float64]:
        """Average precision (draws, levels) at the first IoUs, precision made monotonous, at 101
        recalls; NaN in a draw without a true box."""
        total = weights @ self.true
        mass = weights[:, self.pictures]
        reached = np.cumsum(mass, axis=1)
        result = np.full((len(weights), levels), np.nan)
        for level in range(levels):
            right = np.cumsum(mass * self.hits[:, level], axis=1)
            # A sample that was not drawn has no weight and no say.
            share = np.divide(right, reached, out=np.zeros_like(right), where=reached > 0)
            share = np.maximum.accumulate(share[:, ::-1], axis=1)[:, ::-1]
            for draw in np.flatnonzero(total):
                result[draw, level] = _at_recalls(right[draw] / total[draw], share[draw])
        return result


def _at_recalls(recall: NDArray[np.float64], precision: NDArray[np.float64]) -> float:
    places = np.searchsorted(recall, _RECALLS, side="left")
    return float(precision[places[places < len(precision)]].sum() / len(_RECALLS))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DetectorTally:
    """`pooled` over the classes against the full model, `by_class` against the labels.

    Neither knows of boxes any more. `nothing`: the full model found nothing anywhere, and whether
    the method did not either.
    """

    pooled: Ranking
    by_class: tuple[Ranking, ...]

    def agreement(self, weights: Weights) -> Values:
        found = self.pooled.precision(weights, 1)[:, 0]
        silent = ~weights[:, self.pooled.pictures].any(axis=1)
        return np.where(np.isnan(found), silent, found)

    def measures(self, weights: Weights) -> dict[str, Values]:
        if not self.by_class:
            return {name: np.zeros(len(weights)) for name in ("mAP50", "mAP")}
        found = np.stack([one.precision(weights, len(IOUS)) for one in self.by_class])
        drawn = ~np.isnan(found[:, :, 0])
        # The mean over the classes that a draw has true boxes of.
        classes = np.maximum(1, drawn.sum(axis=0))
        mean = np.nansum(found, axis=0) / classes[:, np.newaxis]
        return {"mAP50": mean[:, 0], "mAP": mean.mean(axis=1)}


class DetectorJudge:
    """An answer is (n, 6): x1, y1, x2, y2 in picture pixels, score, class; the best 100.

    The full model's detections count as true from the bundle's own threshold on.
    """

    def __init__(self, manifest: Manifest) -> None:
        assert isinstance(manifest.task, DetectTask)
        self._sure = manifest.task.threshold
        lenient = replace(manifest.task, threshold=min(_THRESHOLD, self._sure))
        self._task = task_for(replace(manifest, task=lenient))

    def read(self, outputs: Mapping[str, Array], place: Place) -> Answer:
        rows = self._task.finish(outputs)[0][DETECTIONS]
        assert place is not None  # a detector takes pictures
        corners = place.to_picture(rows[:, :4])
        inside = np.all(corners[:, 2:] > corners[:, :2], axis=1)
        boxes = np.column_stack([corners, rows[:, 4:]])[inside].astype(np.float32)
        return _best(boxes)

    def tally(
        self, answers: Sequence[Answer], reference: Sequence[Answer], truth: Sequence[Floats]
    ) -> DetectorTally:
        """`truth` a picture: (m, 5) class, x1, y1, x2, y2."""
        found = [_best(rows) for rows in answers]
        sure = [_best(rows[rows[:, 4] >= np.float32(self._sure)]) for rows in reference]
        teacher = [np.column_stack([rows[:, 5], rows[:, :4]]) for rows in sure]
        labels = sorted({int(label) for boxes in truth for label in boxes[:, 0]})
        return DetectorTally(
            pooled=_ranking([(rows, boxes) for rows, boxes in zip(found, teacher, strict=True)]),
            by_class=tuple(
                _ranking(
                    [
                        (rows[rows[:, 5] == label], boxes[boxes[:, 0] == label])
                        for rows, boxes in zip(found, truth, strict=True)
                    ]
                )
                for label in labels
            ),
        )


def _best(rows: Floats) -> Floats:
    return rows[np.argsort(-rows[:, 4], kind="stable")[:MAX_DETECTIONS]]


def _ranking(pairs: Sequence[tuple[Floats, Floats]]) -> Ranking:
    """Of detections (n, 6) and true boxes (m, 5) a picture, each class for itself."""
    pictures, scores, hits = [], [], []
    for picture, (rows, boxes) in enumerate(pairs):
        for found, true in _by_class(rows, boxes):
            pictures.append(np.full(len(found), picture))
            scores.append(found[:, 4])
            hits.append(match(found[:, :4], true[:, 1:5]).T)
    order = np.argsort(-np.concatenate([*scores, np.empty(0)]), kind="stable")
    return Ranking(
        pictures=np.concatenate([*pictures, np.empty(0, dtype=np.intp)])[order],
        hits=np.concatenate([*hits, np.empty((0, len(IOUS)))])[order].astype(np.float64),
        true=np.array([len(boxes) for _, boxes in pairs], dtype=np.float64),
    )


def _by_class(rows: Floats, boxes: Floats) -> Iterator[tuple[Floats, Floats]]:
    for label in np.unique(rows[:, 5]):
        yield rows[rows[:, 5] == label], boxes[boxes[:, 0] == label]
