"""The recipe of the built-in bundle, on a small detector in the same format."""

from pathlib import Path

import msgspec
import numpy as np
import pytest

import tiny_darknet
from headtail_models import zoo
from headtail_models.bundle import Bundle, open_bundle
from headtail_models.bundle.manifest import DetectTask, QuantiserTable
from headtail_models.task import task_for
from headtail_models.zoo import records, yolov3_tiny
from headtail_models.zoo.calibrate import Trunk, main
from headtail_models.zoo.darknet import Yolo, read_network
from headtail_models.zoo.errors import UnknownModelError
from headtail_models.zoo.records import Calibration
from headtail_models.zoo.released import released_cuts
from photo_tar import jpeg, write_tar


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return open_bundle(tiny_darknet.build(tmp_path_factory.mktemp("build")))


def test_the_fine_map_gets_the_anchors_it_was_trained_with(tmp_path: Path) -> None:
    last = yolov3_tiny.read(tiny_darknet.asset_files(tmp_path / "asset")).layers[-1]
    assert isinstance(last, Yolo)
    assert last.mask == (1, 2, 3)


def test_the_bundle_is_complete(bundle: Bundle) -> None:
    manifest = bundle.manifest
    assert [cut.name for cut in manifest.cuts] == [f"L{layer}" for layer in tiny_darknet.CUTS]
    assert manifest.labels == tiny_darknet.LABELS
    assert isinstance(manifest.task, DetectTask)
    assert [(scale.output, scale.stride) for scale in manifest.task.scales] == [
        ("stride8", 8),
        ("stride4", 4),
    ]
    assert manifest.cuts[2].measured == tiny_darknet.ACCURACY.cuts["L2"]
    assert (manifest.metric, manifest.metric_split, manifest.full_value) == ("mAP50", "none", 0.6)
    for cut in manifest.cuts:
        assert set(cut.quantisers) == {"q8", "q4"}
        assert cut.head.macs + cut.tail.macs == manifest.full.macs
        bundle.open_stage(cut.head)
        bundle.open_stage(cut.tail)


def test_a_picture_goes_through_head_and_tail(bundle: Bundle) -> None:
    task = task_for(bundle.manifest)
    picture = np.random.default_rng(0).integers(0, 256, (30, 60, 3), dtype=np.uint8)
    image, geometry = task.prepare(picture)
    crossing = bundle.open_stage(bundle.head("L3")).run({"image": image})
    split = task.finish(bundle.open_stage(bundle.tail("L3")).run(crossing))[0]
    whole = task.finish(bundle.open_stage(bundle.full()).run({"image": image}))[0]
    np.testing.assert_allclose(split["detections"], whole["detections"], atol=1e-3)
    assert task.answer(split, geometry).to_json()["task"] == "detect"


def test_every_tail_but_the_last_begins_with_a_segment_to_the_next_cut(bundle: Bundle) -> None:
    *cuts, last = bundle.manifest.cuts
    assert last.segment is None
    for cut, following in zip(cuts, bundle.manifest.cuts[1:], strict=True):
        assert cut.segment is not None
        assert cut.segment.until == following.name
        shape = (2, *cut.tensor.shape)
        crossing = np.random.default_rng(1).normal(size=shape).astype(np.float32)
        whole = bundle.open_stage(cut.tail).run({cut.name: crossing})
        passed = bundle.open_stage(cut.segment.stage).run({cut.name: crossing})
        rest = bundle.open_stage(following.tail).run(passed)
        for name, expected in whole.items():
            np.testing.assert_allclose(rest[name], expected, atol=1e-4)


def test_each_build_has_the_same_digest(bundle: Bundle, tmp_path: Path) -> None:
    assert open_bundle(tiny_darknet.build(tmp_path)).digest == bundle.digest


def test_only_the_part_that_the_picture_covers_is_calibrated(tmp_path: Path) -> None:
    trunk = Trunk.of(read_network(tiny_darknet.CFG, tiny_darknet.weights()), tmp_path)
    wide = np.zeros((20, 40, 3), dtype=np.uint8)
    shapes = {cut: tensor.shape for cut, tensor in trunk.tensors(wide, fill=127).items()}
    assert shapes == {
        "L0": (4, 16, 32),
        "L1": (4, 8, 16),
        "L2": (6, 8, 16),
        "L3": (6, 4, 8),
        "L4": (8, 4, 8),
    }


def test_released_records_fit_the_released_network() -> None:
    calibration = records.read_calibration(yolov3_tiny.NAME)
    accuracy = records.read_accuracy(yolov3_tiny.NAME)
    cuts = {f"L{layer}" for layer in range(9)}
    assert set(calibration.cuts) == cuts
    trained = {part.cut.name for part in released_cuts(yolov3_tiny.NAME)}
    assert trained == {"bottleneck", "light"}
    assert set(accuracy.cuts) == cuts | trained
    assert "train2017" in calibration.photos
    assert "val2017" in accuracy.split
    for tables in calibration.cuts.values():
        assert set(tables) == {"q8", "q4"}
        assert all(table.quantiser().channels >= 16 for table in tables.values())
    for name, measured in accuracy.cuts.items():
        if name in cuts:
            assert {one.codec for one in measured} == {"q8", "q8+zstd", "q4", "q4+zstd"}
        assert all(0 <= one.value <= 1 and one.mean_bytes > 0 for one in measured)


def test_records_are_written_a_list_a_line() -> None:
    table = QuantiserTable(low=(-1.5, 0.25), high=(1e-7, 3.0))
    record = Calibration(network="n", photos="p", cuts={"L0": {"q8": table}})
    text = records.encode(record).decode()
    assert "[-1.5,0.25]" in text
    assert len(text.splitlines()) == 12


def test_unknown_names_are_refused(tmp_path: Path) -> None:
    assert zoo.known() == (
        yolov3_tiny.NAME,
        "mobilenetv2-imagenet",
        "yamnet-audio",
        "resnet-cifar10",
        "spoken-digits",
        "motion",
    )
    with pytest.raises(UnknownModelError, match="yolov3-tiny-coco"):
        zoo.build("yolov9", tmp_path / "out")


def test_calibration_from_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = tiny_darknet.asset_files(tmp_path / "asset")
    monkeypatch.setattr("headtail_models.zoo.calibrate.fetch", lambda name: files)
    photos = write_tar(tmp_path / "photos.tar", {"images/train2017/1.jpg": jpeg()})
    assert main([str(photos), str(tmp_path / "out.json")]) == 0
    record = msgspec.json.decode((tmp_path / "out.json").read_bytes(), type=Calibration)
    assert record.photos == "1 photos of COCO train2017"
    assert record.cuts["L3"]["q4"].quantiser().channels == 6


def test_calibration_needs_photos(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "none.tar"), str(tmp_path / "out.json")]) == 1
    assert "there is no photo set" in capsys.readouterr().err
    assert not (tmp_path / "out.json").exists()
