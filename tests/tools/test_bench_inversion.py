"""`headtail bench inversion` on a small bundle and photos made by hand."""

import argparse
from pathlib import Path

import cv2
import pytest

import tiny_darknet
from headtail.bench import inversion
from headtail.bench.report import Report
from photo_tar import jpeg, write_tar


def _run(*words: str) -> Report:
    parser = argparse.ArgumentParser()
    inversion.add_arguments(parser)
    return inversion.run(parser.parse_args(words))


def test_without_photos_it_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADTAIL_DATA", raising=False)
    assert "HEADTAIL_DATA" in (_run().skipped or "")


def test_each_way_is_attacked(tmp_path: Path) -> None:
    photos = write_tar(
        tmp_path / "photos.tar",
        {f"images/{split}/{n}.jpg": jpeg() for split in ("train2017", "val2017") for n in range(3)},
    )
    picture, table = tmp_path / "seen.png", tmp_path / "seen.md"
    report = _run(
        "--bundle",
        str(tiny_darknet.build(tmp_path)),
        *("--photos", str(photos), "--ways", "L1/q8,L3/q4+zstd", "--steps", "4"),
        *("--pictures", str(picture), "--markdown", str(table)),
    )
    assert set(report.figures) == {"psnr_L1_q8", "ssim_L1_q8", "psnr_L3_q4+zstd", "ssim_L3_q4+zstd"}
    assert all(5 < report.figures[name] < 40 for name in report.figures if name[:4] == "psnr")
    drawn = cv2.imread(str(picture))
    assert drawn is not None
    assert drawn.shape == (3 * 16, 190 + 3 * 16, 3)
    assert len(table.read_text().splitlines()) == 4
