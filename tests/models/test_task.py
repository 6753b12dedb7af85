"""The seam between pictures and tensors, and what a hostile edge may answer."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from headtail_models.bundle.manifest import (
    ClassifyTask,
    DetectTask,
    Manifest,
    Preprocess,
    StageEntry,
    YoloScale,
)
from headtail_models.task import (
    AnswerError,
    Box,
    ClassifyAnswer,
    DetectAnswer,
    Geometry,
    TaskError,
    task_for,
)

LABELS = ("person", "traffic light", "cat")
LETTERBOX = Preprocess(kind="letterbox", width=64, height=64)
CROP = Preprocess(kind="centre-crop", width=32, height=32, resize=40)
DETECT = DetectTask(scales=(YoloScale(output="map", stride=16, anchors=((20, 20),)),), max_boxes=5)


def _manifest(
    task: DetectTask | ClassifyTask = DETECT, preprocess: Preprocess = LETTERBOX
) -> Manifest:
    return Manifest(
        schema=1,
        name="test",
        version="1",
        task=task,
        labels=LABELS,
        preprocess=preprocess,
        full=StageEntry(file="full.onnx", inputs=(), outputs=(), macs=0),
        cuts=(),
        default_cut="none",
        default_codec="raw",
        files=(),
    )


def _rows(*rows: list[float]) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.array(rows, dtype=np.float32).reshape(-1, 6)


def _geometry(height: int = 64, width: int = 128) -> Geometry:
    return Geometry.letterbox(height, width, to_height=64, to_width=64)


def test_a_picture_becomes_the_network_s_input() -> None:
    tensor, geometry = task_for(_manifest()).prepare(np.zeros((64, 128, 3), dtype=np.uint8))
    assert tensor.shape == (1, 3, 64, 64)
    assert tensor.dtype == np.float32
    assert geometry == _geometry() == task_for(_manifest()).geometry(64, 128)


def test_a_crop_is_prepared_by_its_manifest() -> None:
    task = task_for(_manifest(ClassifyTask(output="logits"), CROP))
    tensor, geometry = task.prepare(np.zeros((64, 128, 3), dtype=np.uint8))
    assert tensor.shape == (1, 3, 32, 32)
    assert geometry == task.geometry(64, 128)


def test_what_is_no_picture_is_refused() -> None:
    with pytest.raises(ValueError, match="picture"):
        task_for(_manifest()).prepare(np.zeros((64, 128), dtype=np.uint8))


def test_maps_become_detections_a_picture() -> None:
    maps = np.full((2, 8, 4, 4), -20, dtype=np.float32)
    maps[1, :, 1, 2] = [0, 0, 0, 0, 9, -20, 9, -20]
    first, second = task_for(_manifest()).finish({"map": maps})
    assert first["detections"].shape == (0, 6)
    rows = second["detections"]
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows[0, :4], [30, 14, 50, 34], atol=1e-4)
    assert rows[0, 5] == 1


def test_detections_are_suppressed_and_limited() -> None:
    maps = np.full((1, 8, 4, 4), -20, dtype=np.float32)
    maps[0, :4] = 0
    maps[0, 4:6] = 9
    rows = task_for(_manifest()).finish({"map": maps})[0]["detections"]
    assert len(rows) == DETECT.max_boxes


@pytest.mark.parametrize("outputs", [{}, {"map": np.zeros((8, 4, 4), np.float32)}])
def test_outputs_that_are_missing_or_misshapen(outputs: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="map"):
        task_for(_manifest()).finish(outputs)


def test_an_answer_is_in_picture_pixels_best_first() -> None:
    rows = _rows([0, 16, 32, 48, 0.5, 0], [32, 16, 64, 48, 0.75, 1])
    answer = task_for(_manifest()).answer({"detections": rows}, _geometry())
    assert answer == DetectAnswer(
        boxes=(
            Box(label="traffic light", class_id=1, score=0.75, x1=64, y1=0, x2=128, y2=64),
            Box(label="person", class_id=0, score=0.5, x1=0, y1=0, x2=64, y2=64),
        )
    )
    assert repr(answer) == "<DetectAnswer traffic light 0.75, person 0.50>"
    assert json.loads(json.dumps(answer.to_json())) == {
        "task": "detect",
        "boxes": [
            {"label": "traffic light", "class_id": 1, "score": 0.75, "box": [64, 0, 128, 64]},
            {"label": "person", "class_id": 0, "score": 0.5, "box": [0, 0, 64, 64]},
        ],
    }


def test_boxes_beside_the_picture_are_left_out() -> None:
    # The letterbox's padding above the picture ends at row 16.
    rows = _rows([0, 0, 32, 15, 0.9, 0], [0, 0, 32, 17, 0.8, 0], [40, 40, 40, 48, 0.7, 0])
    answer = task_for(_manifest()).answer({"detections": rows}, _geometry())
    assert isinstance(answer, DetectAnswer)
    assert [box.score for box in answer.boxes] == [pytest.approx(0.8)]


def test_an_empty_answer() -> None:
    answer = task_for(_manifest()).answer({"detections": _rows()}, _geometry())
    assert answer == DetectAnswer(boxes=())
    assert repr(answer) == "<DetectAnswer nothing>"


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        ({}, "no 'detections'"),
        ({"detections": _rows([0, 0, 1, 1, 0.5, 0]).astype(np.float64)}, "float64"),
        ({"detections": np.zeros(6, dtype=np.float32)}, "shape"),
        ({"detections": np.zeros((1, 5), dtype=np.float32)}, "shape"),
        ({"detections": np.zeros((1, 1, 6), dtype=np.float32)}, "shape"),
        ({"detections": np.zeros((6, 6), dtype=np.float32)}, "n <= 5"),
        ({"detections": _rows([0, 0, float("nan"), 1, 0.5, 0])}, "not finite"),
        ({"detections": _rows([0, 0, float("inf"), 1, 0.5, 0])}, "not finite"),
        ({"detections": _rows([0, 0, 1, 1, 1.5, 0])}, "score"),
        ({"detections": _rows([0, 0, 1, 1, -0.1, 0])}, "score"),
        ({"detections": _rows([0, 0, 1, 1, 0.5, 3])}, "class"),
        ({"detections": _rows([0, 0, 1, 1, 0.5, -1])}, "class"),
        ({"detections": _rows([0, 0, 1, 1, 0.5, 0.5])}, "class"),
    ],
)
def test_a_hostile_detection_is_refused(tensors: dict[str, Any], words: str) -> None:
    with pytest.raises(AnswerError, match=words):
        task_for(_manifest()).answer(tensors, _geometry())


@given(
    arrays.arrays(
        np.float32,
        arrays.array_shapes(max_dims=3, max_side=7),
        elements=st.floats(width=32) | st.floats(0, 1, width=32),
    )
)
def test_whatever_arrives_is_an_answer_or_refused(tensor: np.ndarray[Any, Any]) -> None:
    for task in (DETECT, ClassifyTask(output="logits")):
        name = "detections" if isinstance(task, DetectTask) else "logits"
        try:
            answer = task_for(_manifest(task)).answer({name: tensor}, _geometry())
        except AnswerError:
            continue
        json.dumps(answer.to_json(), allow_nan=False)


def test_logits_become_probabilities() -> None:
    task = task_for(_manifest(ClassifyTask(output="scores"), CROP))
    logits = np.array([[0, 0, 0], [1000, 0, 1000]], dtype=np.float32)
    batch = task.finish({"scores": logits})
    np.testing.assert_array_equal(batch[1]["logits"], logits[1])
    answer = task.answer(batch[1], task.geometry(50, 50))
    assert isinstance(answer, ClassifyAnswer)
    assert answer.top == (("person", 0.5), ("cat", 0.5), ("traffic light", 0.0))
    assert repr(answer) == "<ClassifyAnswer person 0.50, cat 0.50, traffic light 0.00>"
    assert answer.to_json()["task"] == "classify"


def test_logits_that_are_not_finite_do_not_leave_the_edge() -> None:
    task = task_for(_manifest(ClassifyTask(output="scores"), CROP))
    broken = np.array([[np.nan, np.inf, -np.inf]], dtype=np.float32)
    sent = task.finish({"scores": broken})[0]
    answer = task.answer(sent, task.geometry(50, 50))
    assert isinstance(answer, ClassifyAnswer)
    assert answer.top[0] == ("traffic light", 1.0)


def test_logits_of_another_network_are_refused() -> None:
    task = task_for(_manifest(ClassifyTask(output="scores"), CROP))
    with pytest.raises(ValueError, match="4 logits for 3 labels"):
        task.finish({"scores": np.zeros((1, 4), dtype=np.float32)})
    with pytest.raises(AnswerError, match="shape"):
        task.answer({"logits": np.zeros(4, dtype=np.float32)}, task.geometry(50, 50))


@pytest.mark.parametrize(
    "preprocess",
    [
        Preprocess(kind="centre-crop", width=32, height=32, resize=20),
        Preprocess(kind="centre-crop", width=40, height=32),
        Preprocess(kind="centre-crop", width=32, height=32, mean=(0.5,)),
        Preprocess(kind="centre-crop", width=32, height=32, std=(1.0, 0.0, 1.0)),
    ],
)
def test_a_way_to_prepare_that_makes_no_sense(preprocess: Preprocess) -> None:
    with pytest.raises(TaskError, match="bundle test"):
        task_for(_manifest(ClassifyTask(output="scores"), preprocess))


def test_an_exits_probabilities_become_an_answer() -> None:
    task = task_for(_manifest(ClassifyTask(output="logits"), CROP))
    answer = task.early_answer(np.array([0.1, 0.7, 0.2]), ())
    assert isinstance(answer, ClassifyAnswer)
    assert answer.top == (("traffic light", 0.7), ("cat", 0.2), ("person", 0.1))


def test_an_exit_may_know_some_labels_only_and_keep_its_doubt() -> None:
    task = task_for(_manifest(ClassifyTask(output="logits"), CROP))
    answer = task.early_answer(np.array([0.5, 0.3, 0.2]), (2, 0))
    assert isinstance(answer, ClassifyAnswer)
    assert answer.top == (("cat", 0.5), ("person", 0.3))


@pytest.mark.parametrize("shape", [(2,), (1, 3)])
def test_probabilities_that_do_not_fit_the_labels_are_refused(shape: tuple[int, ...]) -> None:
    task = task_for(_manifest(ClassifyTask(output="logits"), CROP))
    with pytest.raises(ValueError, match="for 3 classes"):
        task.early_answer(np.zeros(shape), ())


def test_a_detector_has_no_exits() -> None:
    with pytest.raises(ValueError, match="no exits"):
        task_for(_manifest()).early_answer(np.ones(3), ())


def test_nothing_is_an_answer() -> None:
    assert task_for(_manifest()).nothing() == DetectAnswer(boxes=())
    nothing = task_for(_manifest(ClassifyTask(output="logits"), CROP)).nothing()
    assert nothing == ClassifyAnswer(top=())
    assert repr(nothing) == "<ClassifyAnswer nothing>"
