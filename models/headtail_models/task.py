"""The seam between what a device captures and tensors, the same on a device and on an edge.

    frame -> prepare -> network -> finish -> (wire) -> answer

A frame is a picture, or a patch of sound. `prepare` and `answer` need the frame or its place and
run on the device; `finish` turns the network's raw outputs into the few numbers that are worth
sending, wherever the tail ran. How frames enter (`entrance`) and what outputs mean are two things:
any task but a detector's goes with pictures and with sounds.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from headtail_fabric.codec.base import Array
from headtail_fabric.errors import PeerError
from headtail_models.audio.answer import Tag, TagAnswer
from headtail_models.audio.task import TAGS, Tagger
from headtail_models.bundle.manifest import ClassifyTask, DetectTask, Manifest, TagTask
from headtail_models.entrance import Entrance, Frame, Place, TaskError, entrance_for
from headtail_models.vision import yolo
from headtail_models.vision.answer import Box, ClassifyAnswer, DetectAnswer
from headtail_models.vision.geometry import Geometry
from headtail_models.vision.nms import suppress
from headtail_models.vision.prepare import Picture

__all__ = [
    "Answer",
    "AnswerError",
    "Box",
    "ClassifyAnswer",
    "DetectAnswer",
    "Frame",
    "Geometry",
    "Picture",
    "Place",
    "Tag",
    "TagAnswer",
    "Task",
    "TaskError",
    "task_for",
]

DETECTIONS: Final = "detections"
LOGITS: Final = "logits"
TOP: Final = 5

Answer = DetectAnswer | ClassifyAnswer | TagAnswer


class AnswerError(PeerError):
    """The edge's answer does not fit the bundle that the request named. Check that the edge runs
    the same version of Headtail; if it does, it is broken or hostile: use another one."""


class Task(Protocol):
    """What surrounds a network. Implementations are immutable and safe to share by threads."""

    def geometry(self, height: int, width: int) -> Place:
        """How a picture of that size lies in the network's input; what `prepare` returns, for
        a picture that is sent whole and prepared elsewhere. None where frames are sounds."""
        ...

    def prepare(self, frame: Frame) -> tuple[NDArray[np.float32], Place]:
        """The network's input of one frame: (1, 3, h, w) of a picture (H, W, 3), BGR; (1, 1,
        patch, bands) of a mono sound (n,) float32 no longer than a patch.

        Raises ValueError when it is no such frame.
        """
        ...

    def finish(self, outputs: Mapping[str, Array]) -> list[dict[str, Array]]:
        """The answer's tensors for each frame of a batch of N, from raw outputs (N, ...).

        `detections` (n, 6) float32: x1, y1, x2, y2 in network pixels, score, class; `logits`
        (labels,) float32; or `tags` (n, 2) float32: class, score, best first. All values are
        finite, whatever the network gave. Raises ValueError when an output is missing or has the
        wrong shape.
        """
        ...

    def answer(self, tensors: Mapping[str, Array], geometry: Place) -> Answer:
        """What those tensors of one frame mean; of a picture, in its own pixels.

        Raises AnswerError.
        """
        ...

    def early_answer(self, shares: Array, classes: Sequence[int]) -> Answer:
        """What an exit's probabilities (K,) mean. `classes` are the labels that the first of them
        stand for, with none all labels; what is left is the exit's doubt, and no label's.

        Raises ValueError for a task that has no exits, or a wrong number of probabilities.
        """
        ...

    def nothing(self) -> Answer:
        """The answer for a frame that holds nothing of interest."""
        ...


def task_for(manifest: Manifest) -> Task:
    """The task of a bundle. Raises TaskError when its `preprocess` makes no sense."""
    entrance = entrance_for(manifest)
    if isinstance(manifest.task, DetectTask):
        return _Detect(manifest.task, entrance, manifest.labels)
    if isinstance(manifest.task, TagTask):
        return _Tag(manifest.task, entrance, manifest.labels)
    return _Classify(manifest.task, entrance, manifest.labels)


class _Entered:
    """The way in, which is the same for all tasks."""

    def __init__(self, entrance: Entrance) -> None:
        self._entrance = entrance

    def geometry(self, height: int, width: int) -> Place:
        return self._entrance.geometry(height, width)

    def prepare(self, frame: Frame) -> tuple[NDArray[np.float32], Place]:
        return self._entrance.prepare(frame)


class _Detect(_Entered):
    def __init__(self, task: DetectTask, entrance: Entrance, labels: tuple[str, ...]) -> None:
        super().__init__(entrance)
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

    def answer(self, tensors: Mapping[str, Array], geometry: Place) -> DetectAnswer:
        assert geometry is not None  # a detector takes pictures
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

    def early_answer(self, shares: Array, classes: Sequence[int]) -> DetectAnswer:
        raise ValueError("a detector has no exits")

    def nothing(self) -> DetectAnswer:
        return DetectAnswer(boxes=())

    def _box(self, corners: NDArray[np.float32], score: float, class_id: int) -> Box:
        x1, y1, x2, y2 = (float(corner) for corner in corners)
        label = self._labels[class_id]
        return Box(label=label, class_id=class_id, score=score, x1=x1, y1=y1, x2=x2, y2=y2)


class _Classify(_Entered):
    def __init__(self, task: ClassifyTask, entrance: Entrance, labels: tuple[str, ...]) -> None:
        super().__init__(entrance)
        self._task = task
        self._labels = labels

    def finish(self, outputs: Mapping[str, Array]) -> list[dict[str, Array]]:
        logits = _output(outputs, self._task.output, ndim=2)
        if logits.shape[1] != len(self._labels):
            raise ValueError(f"{logits.shape[1]} logits for {len(self._labels)} labels")
        rows = logits.astype(np.float32, copy=False)
        if not np.isfinite(rows).all():
            rows = np.nan_to_num(rows)
        return [{LOGITS: row} for row in rows]

    def answer(self, tensors: Mapping[str, Array], geometry: Place) -> ClassifyAnswer:
        logits = _received(tensors, LOGITS)
        if logits.shape != (len(self._labels),):
            raise AnswerError(f"logits of shape {logits.shape}, expected ({len(self._labels)},)")
        wide = logits.astype(np.float64)
        shares = np.exp(wide - wide.max())
        shares /= shares.sum()
        return self._ranked(shares, range(len(self._labels)))

    def early_answer(self, shares: Array, classes: Sequence[int]) -> ClassifyAnswer:
        named = classes or range(len(self._labels))
        if shares.ndim != 1 or shares.size < len(named):
            raise ValueError(f"probabilities of shape {shares.shape} for {len(named)} classes")
        return self._ranked(shares[: len(named)], named)

    def nothing(self) -> ClassifyAnswer:
        return ClassifyAnswer(top=())

    def _ranked(self, shares: Array, classes: Sequence[int]) -> ClassifyAnswer:
        best = np.argsort(-shares, kind="stable")[:TOP]
        return ClassifyAnswer(top=tuple((self._labels[classes[i]], float(shares[i])) for i in best))


class _Tag(_Entered):
    def __init__(self, task: TagTask, entrance: Entrance, labels: tuple[str, ...]) -> None:
        super().__init__(entrance)
        self._tagger = Tagger(
            labels=labels, output=task.output, threshold=task.threshold, most=task.max_tags
        )

    def finish(self, outputs: Mapping[str, Array]) -> list[dict[str, Array]]:
        return self._tagger.finish(outputs)

    def answer(self, tensors: Mapping[str, Array], geometry: Place) -> TagAnswer:
        try:
            return self._tagger.answer(_received(tensors, TAGS))
        except ValueError as error:
            raise AnswerError(str(error)) from None

    def early_answer(self, shares: Array, classes: Sequence[int]) -> TagAnswer:
        return self._tagger.early_answer(shares, classes)

    def nothing(self) -> TagAnswer:
        return self._tagger.nothing()


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
