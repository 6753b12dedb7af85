"""The seam between pictures and tensors, the same on a device and on an edge.

    picture -> prepare -> network -> finish -> (wire) -> answer

`prepare` and `answer` need the picture or its geometry and run on the device; `finish` turns the
network's raw outputs into the few numbers that are worth sending, wherever the tail ran.
"""

from collections.abc import Mapping
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from headtail_fabric.codec.base import Array
from headtail_fabric.errors import ConfigError, PeerError
from headtail_models.bundle.manifest import (
    ClassifyTask,
    DetectTask,
    Manifest,
    Preprocess,
)
from headtail_models.vision import yolo
from headtail_models.vision.answer import Answer, Box, ClassifyAnswer, DetectAnswer
from headtail_models.vision.geometry import Geometry
from headtail_models.vision.nms import suppress
from headtail_models.vision.prepare import Picture, centre_crop, check_picture, letterbox

__all__ = [
    "Answer",
    "AnswerError",
    "Box",
    "ClassifyAnswer",
    "DetectAnswer",
    "Geometry",
    "Picture",
    "Task",
    "TaskError",
    "task_for",
]

DETECTIONS: Final = "detections"
LOGITS: Final = "logits"
TOP: Final = 5


class AnswerError(PeerError):
    """The edge's answer does not fit the bundle that the request named. Check that the edge runs
    the same version of Headtail; if it does, it is broken or hostile: use another one."""


class TaskError(ConfigError):
    """The bundle prepares its pictures in a way that can't be carried out. Build it again, or use
    another one."""


class Task(Protocol):
    """What surrounds a network. Implementations are immutable and safe to share by threads."""

    def geometry(self, height: int, width: int) -> Geometry:
        """How a picture of that size lies in the network's input; what `prepare` returns, for
        a picture that is sent whole and prepared elsewhere."""
        ...

    def prepare(self, picture: Picture) -> tuple[NDArray[np.float32], Geometry]:
        """The network's input (1, 3, h, w) of a picture (H, W, 3), BGR.

        Raises ValueError when it is not a picture.
        """
        ...

    def finish(self, outputs: Mapping[str, Array]) -> list[dict[str, Array]]:
        """The answer's tensors for each picture of a batch of N, from raw outputs (N, ...).

        `detections` (n, 6) float32: x1, y1, x2, y2 in network pixels, score, class; or `logits`
        (labels,) float32. All values are finite, whatever the network gave. Raises ValueError
        when an output is missing or has the wrong shape.
        """
        ...

    def answer(self, tensors: Mapping[str, Array], geometry: Geometry) -> Answer:
        """What those tensors of one picture mean in its own pixels. Raises AnswerError."""
        ...


def task_for(manifest: Manifest) -> Task:
    """The task of a bundle. Raises TaskError when its `preprocess` makes no sense."""
    _check(manifest)
    if isinstance(manifest.task, DetectTask):
        return _Detect(manifest.task, manifest.preprocess, manifest.labels)
    return _Classify(manifest.task, manifest.preprocess, manifest.labels)


def _check(manifest: Manifest) -> None:
    way = manifest.preprocess
    if way.kind == "centre-crop" and (way.resize or way.height) < max(way.height, way.width):
        raise TaskError(f"bundle {manifest.name} crops {way.width}x{way.height} of {way.resize}")
    if len(way.mean) not in (0, 3) or len(way.std) not in (0, 3) or not all(way.std):
        raise TaskError(f"bundle {manifest.name} does not normalise three channels")


class _Entrance:
    """The way in, by the manifest's `preprocess`."""

    def __init__(self, preprocess: Preprocess) -> None:
        self._preprocess = preprocess

    def geometry(self, height: int, width: int) -> Geometry:
        way = self._preprocess
        if way.kind == "letterbox":
            return Geometry.letterbox(height, width, to_height=way.height, to_width=way.width)
        resize = way.resize or way.height
        return Geometry.centre_crop(
            height, width, resize=resize, to_height=way.height, to_width=way.width
        )

    def prepare(self, picture: Picture) -> tuple[NDArray[np.float32], Geometry]:
        check_picture(picture)
        way = self._preprocess
        geometry = self.geometry(picture.shape[0], picture.shape[1])
        if way.kind == "letterbox":
            return letterbox(picture, geometry, fill=way.fill), geometry
        return centre_crop(picture, geometry, mean=way.mean, std=way.std), geometry


class _Detect(_Entrance):
    def __init__(self, task: DetectTask, preprocess: Preprocess, labels: tuple[str, ...]) -> None:
        super().__init__(preprocess)
        self._task = task
        self._labels = labels

    def finish(self, outputs: Mapping[str, Array]) -> list[dict[str, Array]]:
        maps = [_output(outputs, scale.output, ndim=4) for scale in self._task.scales]
        return [{DETECTIONS: self._detections(one)} for one in zip(*maps, strict=True)]

    def _detections(self, maps: tuple[Array, ...]) -> Array:
        found = yolo.decode(
            maps,
            self._task.scales,
            classes=len(self._labels),
            threshold=self._task.threshold,
        )
        return suppress(found, max_iou=self._task.nms_iou, limit=self._task.max_boxes)

    def answer(self, tensors: Mapping[str, Array], geometry: Geometry) -> DetectAnswer:
        rows = _received(tensors, DETECTIONS)
        if rows.ndim != 2 or rows.shape[1] != 6 or rows.shape[0] > self._task.max_boxes:
            raise AnswerError(
                f"detections of shape {rows.shape}, expected (n, 6), n <= {self._task.max_boxes}"
            )
        scores, classes = rows[:, 4], rows[:, 5]
        if np.any((scores < 0) | (scores > 1)):
            raise AnswerError("a detection's score is not between 0 and 1")
        if np.any((classes < 0) | (classes >= len(self._labels)) | (classes != np.rint(classes))):
            raise AnswerError(f"a detection's class is none of the {len(self._labels)} labels")
        corners = geometry.to_picture(rows[:, :4])
        inside = np.all(corners[:, 2:] > corners[:, :2], axis=1)
        best_first = np.argsort(-scores, kind="stable")
        return DetectAnswer(
            boxes=tuple(
                self._box(corners[row], float(scores[row]), int(classes[row]))
                for row in best_first
                if inside[row]
            )
        )

    def _box(self, corners: NDArray[np.float32], score: float, class_id: int) -> Box:
        x1, y1, x2, y2 = (float(corner) for corner in corners)
        label = self._labels[class_id]
        return Box(label=label, class_id=class_id, score=score, x1=x1, y1=y1, x2=x2, y2=y2)


class _Classify(_Entrance):
    def __init__(self, task: ClassifyTask, preprocess: Preprocess, labels: tuple[str, ...]) -> None:
        super().__init__(preprocess)
        self._task = task
        self._labels = labels

    def finish(self, outputs: Mapping[str, Array]) -> list[dict[str, Array]]:
        logits = _output(outputs, self._task.output, ndim=2)
        if logits.shape[1] != len(self._labels):
            raise ValueError(f"{logits.shape[1]} logits for {len(self._labels)} labels")
        finite = np.nan_to_num(logits.astype(np.float32, copy=False))
        return [{LOGITS: row} for row in finite]

    def answer(self, tensors: Mapping[str, Array], geometry: Geometry) -> ClassifyAnswer:
        logits = _received(tensors, LOGITS)
        if logits.shape != (len(self._labels),):
            raise AnswerError(f"logits of shape {logits.shape}, expected ({len(self._labels)},)")
        wide = logits.astype(np.float64)
        shares = np.exp(wide - wide.max())
        shares /= shares.sum()
        best = np.argsort(-shares, kind="stable")[:TOP]
        return ClassifyAnswer(top=tuple((self._labels[i], float(shares[i])) for i in best))


def _output(outputs: Mapping[str, Array], name: str, *, ndim: int) -> NDArray[Any]:
    tensor = outputs.get(name)
    if tensor is None:
        raise ValueError(f"the network gave no output {name!r}, only {sorted(outputs)}")
    if tensor.ndim != ndim:
        raise ValueError(f"output {name!r} of shape {tensor.shape}, expected {ndim} axes")
    return tensor


def _received(tensors: Mapping[str, Array], name: str) -> NDArray[np.float32]:
    tensor = tensors.get(name)
    if tensor is None:
        raise AnswerError(f"the answer holds no {name!r}")
    if tensor.dtype != np.float32:
        raise AnswerError(f"{name} of type {tensor.dtype}, expected float32")
    if not np.isfinite(tensor).all():
        raise AnswerError(f"{name} holds values that are not finite")
    return tensor
