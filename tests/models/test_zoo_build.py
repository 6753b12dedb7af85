"""The recipe of the built-in bundle, on a small detector in the same format."""

from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

import tiny_darknet
from headtail_models import zoo
from headtail_models.bundle import open_bundle, write_bundle
from headtail_models.bundle.manifest import DetectTask, Measured, QuantiserTable
from headtail_models.task import task_for
from headtail_models.zoo import records, yolov3_tiny
from headtail_models.zoo.calibrate import Trunk, calibrate
from headtail_models.zoo.darknet import Network, Yolo
from headtail_models.zoo.errors import UnknownModelError
from headtail_models.zoo.records import Accuracy, Calibration


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Stand-ins for the asset's files."""
    contents = {
        "yolov3-tiny.cfg": tiny_darknet.CFG.encode(),
        "yolov3-tiny.weights": tiny_darknet.weights(),
        "coco.names": b"cat\ndog\n\n",
    }
    (tmp_path / "asset").mkdir()
    for name, content in contents.items():
        (tmp_path / "asset" / name).write_bytes(content)
    return {name: tmp_path / "asset" / name for name in contents}


def _tables(network: Network, folder: Path) -> Calibration:
    folder.mkdir()
    random = np.random.default_rng(3)
    pictures = [random.integers(0, 256, (24, 40, 3), dtype=np.uint8) for _ in range(3)]
    cuts = calibrate(Trunk.of(network, folder), pictures, fill=127)
    return Calibration(network="tiny", photos="noise", cuts=cuts)


def _accuracy() -> Accuracy:
    measured = Measured(codec="q8", value=0.5, drop=0.1, mean_bytes=100)
    return Accuracy(
        network="tiny", metric="mAP50", split="none", full_value=0.6, cuts={"L2": (measured,)}
    )


def _build(files: dict[str, Path], folder: Path) -> Path:
    """A bundle of the small network by the recipe, its default cut one that it has."""
    network = yolov3_tiny.read(files)
    (folder / "stages").mkdir(parents=True)
    manifest = yolov3_tiny.write(
        network,
        yolov3_tiny.labels(files),
        folder / "stages",
        calibration=_tables(network, folder / "trunk"),
        accuracy=_accuracy(),
    )
    manifest = replace(manifest, default_cut="L3")
    return write_bundle(folder / "stages", manifest, folder / "bundle")


def test_the_fine_map_gets_the_anchors_it_was_trained_with(files: dict[str, Path]) -> None:
    last = yolov3_tiny.read(files).layers[-1]
    assert isinstance(last, Yolo)
    assert last.mask == (1, 2, 3)


def test_the_bundle_is_complete(files: dict[str, Path], tmp_path: Path) -> None:
    bundle = open_bundle(_build(files, tmp_path / "build"))
    manifest = bundle.manifest
    assert [cut.name for cut in manifest.cuts] == [f"L{layer}" for layer in tiny_darknet.CUTS]
    assert manifest.labels == tiny_darknet.LABELS
    assert isinstance(manifest.task, DetectTask)
    assert [(scale.output, scale.stride) for scale in manifest.task.scales] == [
        ("stride8", 8),
        ("stride4", 4),
    ]
    assert manifest.cuts[2].measured == _accuracy().cuts["L2"]
    assert (manifest.metric, manifest.metric_split, manifest.full_value) == ("mAP50", "none", 0.6)
    for cut in manifest.cuts:
        assert set(cut.quantisers) == {"q8", "q4"}
        assert cut.head.macs + cut.tail.macs == manifest.full.macs
        bundle.open_stage(cut.head)
        bundle.open_stage(cut.tail)


def test_a_picture_goes_through_head_and_tail(files: dict[str, Path], tmp_path: Path) -> None:
    bundle = open_bundle(_build(files, tmp_path / "build"))
    task = task_for(bundle.manifest)
    picture = np.random.default_rng(0).integers(0, 256, (30, 60, 3), dtype=np.uint8)
    image, geometry = task.prepare(picture)
    crossing = bundle.open_stage(bundle.head("L3")).run({"image": image})
    split = task.finish(bundle.open_stage(bundle.tail("L3")).run(crossing))[0]
    whole = task.finish(bundle.open_stage(bundle.full()).run({"image": image}))[0]
    np.testing.assert_allclose(split["detections"], whole["detections"], atol=1e-3)
    assert task.answer(split, geometry).to_json()["task"] == "detect"


def test_each_build_has_the_same_digest(files: dict[str, Path], tmp_path: Path) -> None:
    first, second = (open_bundle(_build(files, tmp_path / name)) for name in ("one", "two"))
    assert first.digest == second.digest


def test_only_the_part_that_the_picture_covers_is_calibrated(
    files: dict[str, Path], tmp_path: Path
) -> None:
    trunk = Trunk.of(yolov3_tiny.read(files), tmp_path)
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
    assert set(calibration.cuts) == set(accuracy.cuts) == cuts
    assert "train2017" in calibration.photos
    assert "val2017" in accuracy.split
    for tables in calibration.cuts.values():
        assert set(tables) == {"q8", "q4"}
        assert all(table.quantiser().channels >= 16 for table in tables.values())
    for measured in accuracy.cuts.values():
        assert {one.codec for one in measured} == {"q8", "q8+zstd", "q4", "q4+zstd"}
        assert all(0 <= one.value <= 1 and one.mean_bytes > 0 for one in measured)


def test_records_are_written_a_list_a_line() -> None:
    table = QuantiserTable(low=(-1.5, 0.25), high=(1e-7, 3.0))
    record = Calibration(network="n", photos="p", cuts={"L0": {"q8": table}})
    text = records.encode(record).decode()
    assert "[-1.5,0.25]" in text
    assert len(text.splitlines()) == 12


def test_unknown_names_are_refused(tmp_path: Path) -> None:
    assert zoo.known() == (yolov3_tiny.NAME,)
    with pytest.raises(UnknownModelError, match="yolov3-tiny-coco"):
        zoo.build("yolov9", tmp_path / "out")
