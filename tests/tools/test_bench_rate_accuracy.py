"""`headtail bench rate-accuracy` on a small bundle and photos made by hand."""

import argparse
from pathlib import Path

import cv2
import msgspec
import pytest

import tiny_darknet
from headtail.bench import rate_accuracy
from headtail.bench.report import Report
from headtail_models.rate import cut, picture
from headtail_models.zoo.records import Accuracy
from photo_tar import jpeg, write_tar


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_darknet.build(tmp_path_factory.mktemp("build"))


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    label = b"1 0.5 0.5 0.5 0.5\n"
    return write_tar(
        tmp_path / "coco-photos.tar",
        {
            f"images/{split}/{number}.jpg": jpeg(40 + number, 60)
            for split in ("val2017", "train2017")
            for number in (1, 2, 3)
        }
        | {f"labels/val2017/{number}.txt": label for number in (1, 2, 3)},
    )


@pytest.fixture(autouse=True)
def few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("HEADTAIL_DATA", raising=False)
    monkeypatch.setattr(picture, "QUALITIES", {"jpeg": (5, 95), "webp": (5, 95), "avif": (50,)})
    monkeypatch.setattr(picture, "SHRUNK_QUALITIES", {"jpeg": (50,), "webp": (50,), "avif": (50,)})


def _run(*words: str) -> Report:
    parser = argparse.ArgumentParser()
    rate_accuracy.add_arguments(parser)
    return rate_accuracy.run(parser.parse_args(["--draws", "5", *words]))


def test_without_photos_it_is_skipped(bundle: Path, tmp_path: Path) -> None:
    assert "HEADTAIL_DATA" in (_run("--bundle", str(bundle)).skipped or "")
    missing = tmp_path / "none.tar"
    report = _run("--bundle", str(bundle), "--photos", str(missing))
    assert report.skipped == f"no photo set at {missing}"


def test_what_it_finds_and_writes(bundle: Path, photos: Path, tmp_path: Path) -> None:
    table, picture, measured = (tmp_path / name for name in ("t.md", "p.png", "m.json"))
    report = _run(
        *("--bundle", str(bundle), "--photos", str(photos), "--codec", "jpeg", "--limit", "2"),
        *("--markdown", str(table), "--plot", str(picture), "--measured", str(measured)),
    )
    assert report.figures["samples"] == 2
    assert 0 <= report.figures["full_map50"] <= 1
    assert report.targets == []
    text = table.read_text()
    assert "| jpeg, native | q95 |" in text
    assert "| jpeg, shrunk | 0.5 q50 |" in text
    assert "| natural cuts, q4+zstd | L0 |" in text
    assert "| natural cuts, q4, rans |" in text
    assert cv2.imread(str(picture)) is not None
    record = msgspec.json.decode(measured.read_bytes(), type=Accuracy)
    assert set(record.cuts) == {"L0", "L1", "L2", "L3", "L4"}
    assert record.metric == "mAP50"
    assert record.split == "2 photos of COCO val2017"


def test_a_second_run_measures_nothing(
    bundle: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("--bundle", str(bundle), "--photos", str(photos), "--codec", "webp", "--cut", "L4")
    first = _run(*words)

    def never(*_: object) -> None:
        raise AssertionError("measured again")

    monkeypatch.setattr(picture.ViewedPicture, "send", never)
    monkeypatch.setattr(picture.NativePicture, "send", never)
    monkeypatch.setattr(cut.CutTensor, "send", never)
    assert _run(*words).figures == first.figures
