"""The evaluation on a small detector, held against what can be known beforehand."""

from pathlib import Path

import cv2
import numpy as np
import pytest
from msgspec.structs import replace

import tiny_darknet
from headtail_models.bundle import Bundle, open_bundle
from headtail_models.bundle.manifest import DetectTask
from headtail_models.bundle.specimen import write_specimen
from headtail_models.data.coco_photos import LabelledPhoto
from headtail_models.task import task_for
from headtail_models.zoo.evaluation import PICTURE, PICTURES, SHRUNK, Evaluation, Evaluator

SHAPES = {"L0": 4 * 32 * 32, "L1": 4 * 16 * 16, "L2": 6 * 16 * 16, "L3": 6 * 64, "L4": 8 * 64}


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return open_bundle(tiny_darknet.build(tmp_path_factory.mktemp("build")))


def _photos(bundle: Bundle) -> list[LabelledPhoto]:
    """Noise, labelled with what the full model itself sees in it."""
    manifest = bundle.manifest
    assert isinstance(manifest.task, DetectTask)
    lenient = replace(manifest, task=replace(manifest.task, threshold=0.005, max_boxes=100))
    task, full = task_for(lenient), bundle.open_stage(bundle.full())
    photos = []
    for seed in range(2):
        noise = np.random.default_rng(seed).integers(0, 256, (48, 80, 3), dtype=np.uint8)
        picture = cv2.GaussianBlur(noise, (9, 9), 0).astype(np.uint8)
        image, geometry = task.prepare(picture)
        assert geometry is not None
        rows = task.finish(full.run({"image": image}))[0]["detections"]
        boxes = np.column_stack([rows[:, 5], geometry.to_picture(rows[:, :4])])
        sized = boxes[(boxes[:, 3] > boxes[:, 1]) & (boxes[:, 4] > boxes[:, 2])]
        photos.append(
            LabelledPhoto(
                name=str(seed), file_bytes=1000 + seed, picture=picture, boxes=sized.astype("f4")
            )
        )
    return photos


@pytest.fixture(scope="module")
def evaluation(bundle: Bundle) -> Evaluation:
    evaluator = Evaluator(bundle)
    for photo in _photos(bundle):
        evaluator.add(photo)
    return evaluator.result()


def test_the_full_model_finds_what_it_found(evaluation: Evaluation) -> None:
    assert evaluation.photos == 2
    assert evaluation.true_boxes > 10
    assert evaluation.stored_bytes == 1000.5
    assert evaluation.full.map50 > 0.95
    assert evaluation.split_difference <= 1e-5


def test_every_cut_and_codec_is_there(evaluation: Evaluation) -> None:
    found = [(variant.place, variant.codec) for variant in evaluation.variants]
    codecs = ("q8", "q8+zstd", "q4", "q4+zstd")
    pictures = [f"{codec} {quality}" for codec, quality in PICTURES]
    assert found == [
        *((cut, codec) for cut in SHAPES for codec in codecs),
        *((place, name) for place in (PICTURE, SHRUNK) for name in pictures),
    ]


def test_sizes_are_those_of_the_payloads(bundle: Bundle, evaluation: Evaluation) -> None:
    sizes = {(variant.place, variant.codec): variant.mean_bytes for variant in evaluation.variants}
    for cut, values in SHAPES.items():
        assert sizes[cut, "q8"] == values
        assert sizes[cut, "q4"] == values // 2
        assert 0 < sizes[cut, "q4+zstd"] <= values // 2 + 20
    files = [
        cv2.imencode(".jpg", photo.picture, [cv2.IMWRITE_JPEG_QUALITY, 75])[1].size
        for photo in _photos(bundle)
    ]
    assert sizes[PICTURE, "jpeg 75"] == np.mean(files)
    assert sizes[SHRUNK, "jpeg 75"] < sizes[PICTURE, "jpeg 75"]


def test_more_bits_agree_more(evaluation: Evaluation) -> None:
    agreement = {(v.place, v.codec): v.agreement for v in evaluation.variants}
    for cut in SHAPES:
        assert agreement[cut, "q8"] >= agreement[cut, "q4"]
        assert agreement[cut, "q8"] == agreement[cut, "q8+zstd"]
    assert np.mean([agreement[cut, "q8"] for cut in SHAPES]) > 0.9


def test_nothing_evaluated(bundle: Bundle) -> None:
    with pytest.raises(ValueError, match="nothing"):
        Evaluator(bundle).result()


def test_only_detectors_are_evaluated(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not detect"):
        Evaluator(open_bundle(write_specimen(tmp_path / "specimen")))
