"""`headtail bench accuracy` on a small bundle and photos made by hand."""

import argparse
import json
from pathlib import Path

import cv2
import msgspec
import pytest

import tiny_darknet
from headtail.bench import accuracy
from headtail.bench.report import Report
from headtail_models.zoo.records import Accuracy
from photo_tar import jpeg, write_tar


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_darknet.build(tmp_path_factory.mktemp("build"))


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return write_tar(
        tmp_path / "coco-photos.tar",
        {
            "images/val2017/1.jpg": jpeg(40, 60),
            "labels/val2017/1.txt": b"1 0.5 0.5 0.5 0.5\n",
        },
    )


def _run(*words: str) -> Report:
    parser = argparse.ArgumentParser()
    accuracy.add_arguments(parser)
    return accuracy.run(parser.parse_args(words))


def test_without_photos_it_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADTAIL_DATA", raising=False)
    assert "HEADTAIL_DATA" in (_run().skipped or "")
    monkeypatch.setenv("HEADTAIL_DATA", str(tmp_path))
    report = _run()
    assert report.skipped == f"no photo set at {tmp_path / 'coco-photos.tar'}"
    assert report.targets == []


def test_figures_and_targets(bundle: Path, photos: Path) -> None:
    report = _run("--bundle", str(bundle), "--photos", str(photos))
    assert {target.name for target in report.targets} == {
        "map50_full",
        "split_equals_full_max_diff",
    }
    assert report.figures["photos"] == 1
    assert report.figures["bytes_l3_q8"] == 384
    for name in ("map50_l0_q4_zstd", "agreement_picture_jpeg_75", "bytes_shrunk_picture_webp_75"):
        assert name in report.figures


def test_a_few_photos_have_no_target(bundle: Path, photos: Path) -> None:
    report = _run("--bundle", str(bundle), "--photos", str(photos), "--limit", "1")
    assert [target.name for target in report.targets] == ["split_equals_full_max_diff"]
    assert "map50_full" in report.figures


def test_what_it_writes(bundle: Path, photos: Path, tmp_path: Path) -> None:
    table, picture, measured = (tmp_path / name for name in ("t.md", "p.png", "m.json"))
    _run(
        *("--bundle", str(bundle), "--photos", str(photos)),
        *("--markdown", str(table), "--plot", str(picture), "--measured", str(measured)),
    )
    assert table.read_text().splitlines()[0].startswith("| sent | codec | bytes a frame |")
    assert len(table.read_text().splitlines()) == 2 + 5 * 4 + 2 * 7
    assert cv2.imread(str(picture)) is not None
    record = msgspec.json.decode(measured.read_bytes(), type=Accuracy)
    assert set(record.cuts) == {"L0", "L1", "L2", "L3", "L4"}
    assert [(one.codec, one.quality) for one in record.pictures] == [
        *(("jpeg", quality) for quality in (95, 90, 80, 75, 50)),
        *(("webp", quality) for quality in (90, 75)),
    ]
    assert record.split == "1 photos of COCO val2017"
    assert json.loads(measured.read_text())["metric"] == "mAP50"
