"""The photos of ImageNet's classes, and their splits."""

from pathlib import Path

import pytest

from headtail_models.data.coco_photos import PhotoSetError
from headtail_models.data.imagenet_photos import CLASSES, SPLITS, ImagenetPhotos, split_of
from photo_tar import jpeg, write_tar


def _tar(path: Path, *indexes: int) -> Path:
    return write_tar(
        path / "imagenet.tar",
        {f"{index:04}_n{index:08}_some_thing.jpg": jpeg(20, 30) for index in indexes}
        | {"README.txt": b"no photo"},
    )


def test_every_class_is_in_one_split() -> None:
    counts = {split: sum(split_of(index) == split for index in range(CLASSES)) for split in SPLITS}
    assert counts == {"train": 583, "calibration": 84, "report": 333}


def test_photos_of_a_split(tmp_path: Path) -> None:
    photos = ImagenetPhotos(_tar(tmp_path, 13, 1, 0, 2, 4, 7))
    assert [photo.label for photo in photos.photos("report")] == [1, 4, 7, 13]
    assert [photo.label for photo in photos.photos("calibration")] == [0]
    assert [photo.label for photo in photos.photos("train")] == [2]
    (first, *_) = photos.photos("report")
    assert first.name == "0001_n00000001_some_thing"
    assert first.picture.shape == (20, 30, 3)
    assert first.file_bytes == len(jpeg(20, 30))


def test_a_few_photos_are_spread(tmp_path: Path) -> None:
    photos = ImagenetPhotos(_tar(tmp_path, 1, 4, 7, 10))
    assert [photo.label for photo in photos.photos("report", limit=2)] == [1, 7]
    assert len(list(photos.photos("report", limit=9))) == 4


def test_what_is_no_photo_set(tmp_path: Path) -> None:
    with pytest.raises(PhotoSetError, match="there is no photo set"):
        ImagenetPhotos(tmp_path / "none.tar")
    (tmp_path / "text.tar").write_text("no tar")
    with pytest.raises(PhotoSetError):
        ImagenetPhotos(tmp_path / "text.tar")
    with pytest.raises(PhotoSetError, match="has no photos"):
        ImagenetPhotos(write_tar(tmp_path / "empty.tar", {"a.jpg": jpeg()}))
    with pytest.raises(PhotoSetError, match="has no photos"):
        ImagenetPhotos(_tar(tmp_path, 1, CLASSES))


def test_a_damaged_photo(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "damaged.tar", {"0001_n00000001_thing.jpg": b"no jpeg"})
    with pytest.raises(PhotoSetError, match="can't be decoded"):
        list(ImagenetPhotos(path).photos("report"))
