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
    YoloScale,
)
from headtail_models.rate.classifier import ClassifierJudge
from headtail_models.rate.detector import DetectorJudge
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
    assert tally.agreement() == pytest.approx(agreement(found, sure), abs=1e-6)
    plain = mean_average_precision(found, truth)
    assert tally.labelled()["mAP50"] == pytest.approx(plain.map50, abs=1e-6)
    assert tally.labelled()["mAP"] == pytest.approx(plain.map, abs=1e-6)


def test_weights_stand_for_repeated_pictures() -> None:
    found, reference, truth = _scene(3)
    drawn = [0, 0, 2, 5, 5, 5]
    weights = np.bincount(drawn, minlength=6).astype(np.float64)
    weighted = _detector().tally(found, reference, truth)
    repeated = _detector().tally(
        [found[at] for at in drawn], [reference[at] for at in drawn], [truth[at] for at in drawn]
    )
    assert weighted.agreement(weights) == pytest.approx(repeated.agreement(), abs=1e-6)
    assert weighted.labelled(weights) == pytest.approx(repeated.labelled(), abs=1e-6)


def test_where_the_full_model_finds_nothing() -> None:
    nothing = np.empty((0, 6), dtype=np.float32)
    one = np.array([[0, 0, 9, 9, 0.5, 0]], dtype=np.float32)
    none_true = np.empty((0, 5), dtype=np.float32)
    judge = _detector()
    assert judge.tally([nothing], [nothing], [none_true]).agreement() == 1.0
    assert judge.tally([one], [nothing], [none_true]).agreement() == 0.0
    assert judge.tally([one], [nothing], [none_true]).labelled() == {"mAP50": 0.0, "mAP": 0.0}


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
    assert tally.agreement() == 0.5
    assert tally.labelled() == {"top-1": 0.5, "top-5": 1.0}
    assert tally.labelled(np.array([3.0, 1.0]))["top-1"] == 0.25
