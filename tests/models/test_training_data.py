"""What a training learns from: pictures, crops, cached features, and the rate's steering."""

from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from headtail_models.training.crops import GREY, CropStyle, crop, crop_batches, planes
from headtail_models.training.errors import TrainingDataError
from headtail_models.training.feature_cache import open_cache
from headtail_models.training.pictures import read_pictures
from headtail_models.training.rate_control import RateControl
from photo_tar import write_tar


def _png(value: int) -> bytes:
    good, data = cv2.imencode(".png", np.full((4, 6, 3), value, dtype=np.uint8))
    assert good
    return data.tobytes()


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    entries = {"b/2.png": _png(2), "a/1.png": _png(1), "a/3.png": b"broken", "a/note.txt": b""}
    return write_tar(tmp_path / "photos.tar", entries)


def test_pictures_of_a_tar_file_come_by_name(archive: Path) -> None:
    assert [int(picture[0, 0, 0]) for picture in read_pictures(archive)] == [1, 2]
    assert [int(picture[0, 0, 0]) for picture in read_pictures(archive, prefix="b/")] == [2]


def test_pictures_of_a_folder_and_of_a_video(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for value in (10, 20, 30):
        (folder / f"{value}.png").write_bytes(_png(value))
    assert [int(p[0, 0, 0]) for p in read_pictures(folder, every=2)] == [10, 30]
    video = cv2.VideoWriter(
        str(tmp_path / "clip.avi"), cv2.VideoWriter.fourcc(*"MJPG"), 5, (32, 16)
    )
    for _ in range(4):
        video.write(np.zeros((16, 32, 3), dtype=np.uint8))
    video.release()
    assert [p.shape for p in read_pictures(tmp_path / "clip.avi", every=3)] == [(16, 32, 3)] * 2


def test_where_there_is_nothing_to_learn_from_it_is_said(archive: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.tar").write_bytes(b"no archive at all")
    for path, prefix in ((tmp_path / "gone", ""), (archive, "c/"), (tmp_path / "broken.tar", "")):
        with pytest.raises(TrainingDataError, match=path.name):
            list(read_pictures(path, prefix=prefix))


@pytest.mark.parametrize("shape", [(40, 60), (300, 200), (8, 900)])
def test_a_crop_has_its_size_and_is_grey_beyond_the_picture(shape: tuple[int, int]) -> None:
    picture = np.full((*shape, 3), 250, dtype=np.uint8)
    style = CropStyle(side=64, longest=80, spread=0.1, toned=0.0, banded=0.0)
    random = np.random.default_rng(0)
    for _ in range(20):
        made = crop(picture, style, random)
        assert made.shape == (64, 64, 3)
        assert set(np.unique(made)) <= {GREY, 250}
        assert (made == 250).any()


def test_crops_are_the_same_again_and_vary() -> None:
    picture = np.random.default_rng(1).integers(0, 255, (120, 90, 3)).astype(np.uint8)
    style = CropStyle(side=48, longest=96)
    first = [crop(picture, style, np.random.default_rng(5)) for _ in range(2)]
    assert np.array_equal(first[0], first[1])
    random = np.random.default_rng(5)
    many = [crop(picture, style, random) for _ in range(40)]
    assert len({made.tobytes() for made in many}) == 40
    banded = sum(bool((made[:, :8] == GREY).all() or (made[:8] == GREY).all()) for made in many)
    assert banded > 0


def test_crops_of_many_pictures_come_in_batches() -> None:
    random = np.random.default_rng(1)
    pictures = [random.integers(0, 255, (60, 80, 3)).astype(np.uint8) for _ in range(3)]
    style = CropStyle(side=16, longest=40, banded=0.0)
    sources = list(zip(pictures, (2, 0, 5), strict=True))
    batches = list(crop_batches(sources, style, np.random.default_rng(3), count=3))
    assert [batch.shape for batch in batches] == [(3, 3, 16, 16), (3, 3, 16, 16), (1, 3, 16, 16)]
    drawn = np.random.default_rng(3)
    one_by_one = [crop(picture, style, drawn) for picture, times in sources for _ in range(times)]
    assert np.array_equal(np.concatenate(batches), planes(np.stack(one_by_one)))
    assert list(crop_batches([], style, drawn, count=3)) == []


def test_planes_are_rgb_from_0_to_1() -> None:
    picture = np.zeros((1, 2, 2, 3), dtype=np.uint8)
    picture[..., 2] = 255
    tensor = planes(picture)
    assert tensor.shape == (1, 3, 2, 2)
    assert tensor[0, 0].min() == 1
    assert tensor[0, 1:].max() == 0


def _batches() -> Iterator[dict[str, torch.Tensor]]:
    for first in (0, 3):
        numbers = torch.arange(first, first + 3, dtype=torch.float32)
        yield {"wide": numbers.reshape(3, 1, 1).expand(3, 2, 4), "flat": numbers}


def test_features_are_computed_once(tmp_path: Path) -> None:
    seen: list[int] = []
    made = open_cache(tmp_path, "c", key={"seed": 1}, batches=_batches, progress=seen.append)
    assert (made.count, seen) == (6, [3, 6])
    again = open_cache(
        tmp_path, "c", key={"seed": 1}, batches=lambda: pytest.fail("computed again")
    )
    taken = again.take([4, 1])
    assert taken["wide"].shape == (2, 2, 4)
    assert taken["wide"][:, 0, 0].tolist() == [1, 4]
    assert taken["flat"].dtype == torch.bfloat16


def test_another_key_or_an_interrupted_cache_is_made_anew(tmp_path: Path) -> None:
    open_cache(tmp_path, "c", key={"seed": 1}, batches=_batches)
    assert (
        open_cache(tmp_path, "c", key={"seed": 2}, batches=lambda: iter([*_batches()] * 2)).count
        == 12
    )

    def broken() -> Iterator[dict[str, torch.Tensor]]:
        yield from _batches()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        open_cache(tmp_path, "d", key={"seed": 1}, batches=broken)
    assert open_cache(tmp_path, "d", key={"seed": 1}, batches=_batches).count == 6


def test_two_processes_at_once_do_not_mix(tmp_path: Path) -> None:
    def meanwhile() -> Iterator[dict[str, torch.Tensor]]:
        first, second = _batches()
        yield first
        assert open_cache(tmp_path, "c", key={}, batches=_batches).count == 6
        yield second

    made = open_cache(tmp_path, "c", key={}, batches=meanwhile)
    assert made.take(range(6))["flat"].tolist() == [0, 1, 2, 3, 4, 5]
    assert len(list(tmp_path.iterdir())) == 1


def test_a_cache_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrainingDataError):
        open_cache(tmp_path, "c", key={}, batches=lambda: iter(()))


def test_the_weight_of_the_rate_finds_its_target() -> None:
    control = RateControl(1.0)
    for _ in range(600):
        control.see(1 / (1 + control.value), target=0.2)
    assert 1 / (1 + control.value) == pytest.approx(0.2, rel=0.05)
    again = RateControl(1.0)
    again.load_state_dict(control.state_dict())
    assert again.value == pytest.approx(control.value)
