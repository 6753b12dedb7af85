"""Judging answers: the same as the plain measures, and again for other weights of the samples."""

from typing import Any

import numpy as np
import pytest

from headtail_models.bundle.manifest import (
    SCHEMA,
    ClassifyTask,
    DetectTask,
    Manifest,
    Preprocess,
    StageEntry,
    TagTask,
    YoloScale,
)
from headtail_models.rate.classifier import ClassifierJudge
from headtail_models.rate.detector import DetectorJudge
from headtail_models.rate.tagger import TaggerJudge
from headtail_models.vision.average_precision import agreement, mean_average_precision
from headtail_models.vision.geometry import Geometry

_SIDE = 32


def _manifest(task: Any, labels: tuple[str, ...]) -> Manifest:
    return Manifest(
        schema=SCHEMA,
        name="judged",
        version="1",
        task=task,
        labels=labels,
        preprocess=Preprocess(kind="letterbox", width=_SIDE, height=_SIDE),
        full=StageEntry(file="full.onnx", inputs=(), outputs=(), macs=0),
        cuts=(),
        default_cut="none",
        default_codec="q8",
        files=(),
    )


def _detector() -> DetectorJudge:
    scale = YoloScale(output="maps", stride=16, anchors=((8.0, 8.0),))
    return DetectorJudge(_manifest(DetectTask(scales=(scale,), threshold=0.3), ("one", "two")))


def _boxes(random: np.random.Generator, count: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    corners = random.uniform(0, 60, (count, 2))
    return np.hstack([corners, corners + random.uniform(5, 40, (count, 2))]).astype(np.float32)


def _scene(seed: int) -> tuple[list[Any], list[Any], list[Any]]:
    """Detections, the full model's, and true boxes of six pictures of three classes."""
    random = np.random.default_rng(seed)
    # No score twice: who comes first among equals is nobody's business.
    ladder = iter(random.permutation(60).reshape(12, 5) / 60)
    found: list[Any] = []
    reference: list[Any] = []
    truth: list[Any] = []
    for _ in range(6):
        boxes = _boxes(random, 5)
        labels = random.integers(0, 3, 5)
        truth.append(np.column_stack([labels, boxes]).astype(np.float32)[:4])
        for target in (found, reference):
            moved = boxes + random.normal(0, 2, boxes.shape)
            target.append(np.column_stack([moved, next(ladder), labels]).astype(np.float32))
    return found, reference, truth


@pytest.mark.parametrize("seed", range(8))
def test_a_detector_is_judged_as_by_the_plain_measures(seed: int) -> None:
    found, reference, truth = _scene(seed)
    tally = _detector().tally(found, reference, truth)
    sure = [rows[rows[:, 4] >= np.float32(0.3)] for rows in reference]
    assert tally.agreement(_all(6))[0] == pytest.approx(agreement(found, sure), abs=1e-6)
    plain = mean_average_precision(found, truth)
    measures = tally.measures(_all(6))
    assert measures["mAP50"][0] == pytest.approx(plain.map50, abs=1e-6)
    assert measures["mAP"][0] == pytest.approx(plain.map, abs=1e-6)


def test_all_draws_at_once_are_what_the_drawn_pictures_give_one_by_one() -> None:
    """A bootstrap the slow way: answers and labels repeated as drawn, and judged afresh."""
    found, reference, truth = _scene(3)
    random = np.random.default_rng(2)
    drawn = [*random.integers(0, 6, (20, 6)), np.zeros(6, dtype=np.int64)]
    weights = np.array([np.bincount(one, minlength=6) for one in drawn], dtype=np.float64)
    tally = _detector().tally(found, reference, truth)
    agreements, measures = tally.agreement(weights), tally.measures(weights)
    for draw, numbers in enumerate(drawn):
        repeated = [[some[at] for at in numbers] for some in (found, reference, truth)]
        sure = [rows[rows[:, 4] >= np.float32(0.3)] for rows in repeated[1]]
        assert agreements[draw] == pytest.approx(agreement(repeated[0], sure), abs=1e-6)
        plain = mean_average_precision(repeated[0], repeated[2])
        assert measures["mAP50"][draw] == pytest.approx(plain.map50, abs=1e-6)
        assert measures["mAP"][draw] == pytest.approx(plain.map, abs=1e-6)


def test_where_the_full_model_finds_nothing() -> None:
    nothing = np.empty((0, 6), dtype=np.float32)
    one = np.array([[0, 0, 9, 9, 0.5, 0]], dtype=np.float32)
    none_true = np.empty((0, 5), dtype=np.float32)
    judge = _detector()
    silent = judge.tally([nothing], [nothing], [none_true])
    wrong = judge.tally([one], [nothing], [none_true])
    assert silent.agreement(_all(1)).tolist() == [1.0]
    assert wrong.agreement(_all(1)).tolist() == [0.0]
    assert {name: float(values[0]) for name, values in wrong.measures(_all(1)).items()} == {
        "mAP50": 0.0,
        "mAP": 0.0,
    }


def test_a_detectors_answer_is_in_picture_pixels() -> None:
    maps = np.full((1, 7, 2, 2), -9.0, dtype=np.float32)
    maps[0, :, 0, 0] = (0, 0, 0, 0, 9, 9, -9)
    geometry = Geometry.letterbox(64, 64, to_height=_SIDE, to_width=_SIDE)
    (row,) = _detector().read({"maps": maps}, geometry)
    assert row[:4] == pytest.approx([8, 8, 24, 24])
    assert row[5] == 0


def test_a_classifier() -> None:
    judge = ClassifierJudge(
        _manifest(ClassifyTask(output="logits"), tuple(f"class {at}" for at in range(8)))
    )
    geometry = Geometry.letterbox(64, 64, to_height=_SIDE, to_width=_SIDE)
    logits = np.zeros((1, 8), dtype=np.float32)
    logits[0, :6] = (1, 2, 3, 4, 5, 6)
    answer = judge.read({"logits": logits}, geometry)
    assert answer[:, 0].tolist() == [5, 4, 3, 2, 1]
    other = judge.read({"logits": -logits}, geometry)
    tally = judge.tally([answer, other], [answer, answer], [1, 6])
    weights = np.array([[1.0, 1.0], [3.0, 1.0]])
    assert tally.agreement(weights).tolist() == [0.5, 0.75]
    measures = tally.measures(weights)
    assert measures["top-1"].tolist() == [0.5, 0.25]
    assert measures["top-5"].tolist() == [1.0, 1.0]


def test_a_tagger() -> None:
    judge = TaggerJudge(TagTask(output="logits"))
    reference = [
        judge.read({"logits": np.array([[2.0, -9.0, -9.0]], dtype=np.float32)}, None),
        judge.read({"logits": np.array([[-9.0, -3.0, -9.0]], dtype=np.float32)}, None),
    ]
    found = [reference[0], judge.read({"logits": np.array([[-3.0, -9.0, -9.0]])}, None)]
    tally = judge.tally(found, reference, [None, None])
    weights = np.array([[1.0, 1.0], [1.0, 3.0], [0.0, 2.0]])
    assert tally.agreement(weights).tolist() == [0.5, 0.25, 0.0]
    measures = tally.measures(weights)
    # The full model was sure of the first alone; a draw without it has nothing to miss.
    assert measures["sure"].tolist() == [1.0, 1.0, 1.0]
    away = 2 * (reference[1][0, 1] - reference[1][0, 0]) / 3
    assert measures["score error"] == pytest.approx([away / 2, 3 * away / 4, away])


def _all(samples: int) -> Any:
    return np.ones((1, samples))
