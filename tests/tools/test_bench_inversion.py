"""`headtail bench inversion` on a small bundle and photos made by hand."""

import argparse
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cv2
import msgspec
import numpy as np
import pytest

import tiny_darknet
from headtail.bench import inversion
from headtail.bench.report import Report
from headtail.rates.blocks import block_crossings
from headtail_models.bundle import open_bundle
from headtail_models.bundle.manifest import Preprocess
from headtail_models.bundle.specimen import write_specimen
from headtail_models.rate.errors import RateError
from headtail_models.training import blocks
from headtail_models.training.blocks import BlockFiles
from photo_tar import jpeg, write_tar


@pytest.fixture(autouse=True)
def no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADTAIL_DATA", raising=False)


def _run(*words: str) -> Report:
    parser = argparse.ArgumentParser()
    inversion.add_arguments(parser)
    return inversion.run(parser.parse_args(words))


def test_without_photos_it_is_skipped() -> None:
    assert "HEADTAIL_DATA" in (_run().skipped or "")


def test_each_way_is_attacked(tmp_path: Path) -> None:
    photos = write_tar(
        tmp_path / "photos.tar",
        {f"images/{split}/{n}.jpg": jpeg() for split in ("train2017", "val2017") for n in range(3)},
    )
    also = write_tar(tmp_path / "also.tar", {"0002_n00000002_thing.jpg": jpeg()})
    clip = tmp_path / "clip.avi"
    video = cv2.VideoWriter(str(clip), cv2.VideoWriter.fourcc(*"MJPG"), 5, (64, 48))
    for level in range(0, 200, 20):
        video.write(np.full((48, 64, 3), level, dtype=np.uint8))
    video.release()
    picture, table = tmp_path / "seen.png", tmp_path / "seen.md"
    report = _run(
        "--bundle",
        str(tiny_darknet.build(tmp_path)),
        *("--photos", str(photos), "--also", str(also), "--ways", "L1/q8,L3/q4+zstd"),
        *("--steps", "4", "--pictures", str(picture), "--clip", str(clip)),
        *("--markdown", str(table)),
    )
    assert report.settings["trained on"] == "4 photos of train2017 and ImageNet"
    assert set(report.figures) == {"psnr_L1_q8", "ssim_L1_q8", "psnr_L3_q4+zstd", "ssim_L3_q4+zstd"}
    assert all(5 < report.figures[name] < 40 for name in report.figures if name[:4] == "psnr")
    drawn = cv2.imread(str(picture))
    assert drawn is not None
    # A row for the frames and one for each way; the frames grow brighter.
    assert drawn.shape == (3 * 16, 190 + 4 * 16, 3)
    levels = [int(drawn[8, 190 + 16 * column + 8, 0]) for column in range(4)]
    assert levels == sorted(set(levels))
    assert len(table.read_text().splitlines()) == 4


def test_a_bundle_without_known_cuts_asks_for_them(tmp_path: Path) -> None:
    photos = write_tar(
        tmp_path / "photos.tar",
        {f"images/{split}/0.jpg": jpeg() for split in ("train2017", "val2017")},
    )
    with pytest.raises(RateError, match="--ways"):
        _run("--bundle", str(write_specimen(tmp_path / "bundle")), "--photos", str(photos))


def test_blocks_belong_to_the_classifier(tmp_path: Path) -> None:
    bundle = open_bundle(tiny_darknet.build(tmp_path))
    with pytest.raises(RateError, match="mobilenetv2-imagenet"):
        list(block_crossings(bundle, tmp_path / "blocks"))


def test_blocks_are_made_and_cross(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    specimen = open_bundle(write_specimen(tmp_path / "specimen"))
    (cut,) = specimen.manifest.cuts[:1]
    asked = []

    def make(folder: Path, channels: int, **settings: Any) -> BlockFiles:
        asked.append((folder, channels))
        settings["progress"](SimpleNamespace(step=channels))
        return BlockFiles(
            name=f"block-{channels}",
            head=specimen.path / cut.head.file,
            tail=specimen.path / cut.tail.file,
        )

    monkeypatch.setattr(blocks, "make_block", make)
    manifest = msgspec.structs.replace(specimen.manifest, name="mobilenetv2-imagenet")
    bundle: Any = SimpleNamespace(manifest=manifest, name="mobilenetv2-imagenet 1.0")
    found = list(block_crossings(bundle, tmp_path / "blocks"))
    assert asked == [(tmp_path / "blocks", channels) for channels in (3, 6, 12)]
    assert [crossing.name for crossing in found] == ["block-3", "block-6", "block-12"]
    picture = np.zeros((20, 20, 3), dtype=np.uint8)
    crossed = found[0].cross(picture)
    assert crossed.shape[1:] == cut.tensor.shape
    assert set(found[0].finish(crossed)) == {"logits"}


def test_pictures_are_compared_where_they_lie() -> None:
    assert inversion._inside(-3.0, 22.0, 16) == slice(0, 16)
    assert inversion._inside(2.0, 12.0, 16) == slice(2, 14)
    way = Preprocess(
        kind="centre-crop", width=2, height=2, mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25)
    )
    plane = np.array([-2.0, 0.0, 2.0, 4.0], dtype=np.float32).reshape(1, 2, 2).repeat(3, 0)
    assert inversion._from_0_to_1(plane, way)[0].ravel().tolist() == [0.0, 0.5, 1.0, 1.0]
