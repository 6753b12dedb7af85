"""Reading labelled photos out of a tar file made by hand."""

from pathlib import Path

import numpy as np
import pytest

from headtail_models.data import coco_photos
from headtail_models.data.coco_photos import CocoPhotos, PhotoSetError, parse_labels
from photo_tar import jpeg, write_tar


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return write_tar(
        tmp_path / "photos.tar",
        {
            "images/val/2.jpg": jpeg(),
            "images/val/1.jpg": jpeg(20, 20),
            "images/train/3.jpg": jpeg(),
            "labels/val/2.txt": b"7 0.5 0.5 0.5 1\n0 0.25 0.25 0.1 0.1\n",
        },
    )


def test_photos_come_in_the_order_of_their_names(archive: Path) -> None:
    photos = CocoPhotos(archive)
    assert photos.names("val") == ("1", "2")
    first, second = photos.photos("val")
    assert first.picture.shape == (20, 20, 3)
    assert (second.picture.shape, second.name) == ((40, 80, 3), "2")
    assert second.file_bytes == len(jpeg())
    np.testing.assert_allclose(second.boxes[0], [7, 20, 0, 60, 40])
    assert first.boxes.shape == (0, 5)


def test_the_first_few_of_a_split(archive: Path) -> None:
    assert [photo.name for photo in CocoPhotos(archive).photos("val", limit=1)] == ["1"]


def test_a_split_that_is_not_there(archive: Path) -> None:
    with pytest.raises(PhotoSetError, match="no photos of 'test'"):
        CocoPhotos(archive).names("test")


def test_no_photo_set(tmp_path: Path) -> None:
    with pytest.raises(PhotoSetError, match="there is no photo set") as caught:
        CocoPhotos(tmp_path / "none.tar")
    assert "HEADTAIL_DATA" in caught.value.advice


def test_what_is_no_tar_file(tmp_path: Path) -> None:
    path = tmp_path / "photos.tar"
    path.write_bytes(b"photos" * 1000)
    with pytest.raises(PhotoSetError, match=r"photos\.tar"):
        CocoPhotos(path)


def test_a_damaged_photo(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "photos.tar", {"images/val/1.jpg": b"no picture"})
    with pytest.raises(PhotoSetError, match="can't be decoded"):
        list(CocoPhotos(path).photos("val"))


def test_a_file_that_is_too_large(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coco_photos, "MAX_FILE_BYTES", 100)
    with pytest.raises(PhotoSetError, match=r"1\.jpg has"):
        list(CocoPhotos(archive).photos("val"))


@pytest.mark.parametrize("text", ["1 2 3\n", "a b c d e\n", "1 2 3 4 5\n1 2\n", "1 2 3 4 5 6\n"])
def test_labels_that_are_none(text: str) -> None:
    with pytest.raises(PhotoSetError, match="five numbers"):
        parse_labels(text, height=10, width=10)
