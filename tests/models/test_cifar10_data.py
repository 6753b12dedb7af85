"""The reader of CIFAR-10, on pictures made by hand."""

import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest

from headtail_models.data import cifar10
from headtail_models.data.cifar10 import Cifar10, Cifar10CacheError, Cifar10Error
from photo_tar import jpeg, write_tar
from tiny_cifar import CLASSES, write_pictures


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pictures(tmp_path_factory.mktemp("data"))


def test_splits_share_out_the_pictures(path: Path, tmp_path: Path) -> None:
    pictures = Cifar10(path, cache=tmp_path)
    assert pictures.classes == CLASSES
    train, held, test = (pictures.split(name) for name in ("train", "calibration", "test"))
    assert (len(train), len(held), len(test)) == (72, 8, 40)
    for split in (train, held, test):
        assert (np.bincount(split.labels) == len(split) // 4).all()
        assert split.pictures.shape == (len(split), 32, 32, 3)
        assert split.pictures.dtype == np.uint8
        assert (split.sizes > 300).all()
    joined = np.concatenate([train.pictures, held.pictures, test.pictures])
    assert len(np.unique(joined.reshape(120, -1), axis=0)) == 120


def test_colours_are_those_of_the_files(path: Path, tmp_path: Path) -> None:
    test = Cifar10(path, cache=tmp_path).split("test")
    means = test.pictures.reshape(40, -1, 3).mean(axis=1)
    assert means[test.labels == 0].argmax(axis=1).tolist() == [0] * 10  # blue comes first
    assert means[test.labels == 3].argmax(axis=1).tolist() == [2] * 10


def test_the_second_time_nothing_is_decoded(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Cifar10(path, cache=tmp_path).split("test")
    monkeypatch.setattr(cv2, "imdecode", None)
    again = Cifar10(path, cache=tmp_path).split("test")
    assert (first.pictures == again.pictures).all()
    assert [item.name[:8] for item in tmp_path.iterdir()] == ["cifar10-"]


def test_another_file_has_another_cache(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    write_pictures(other, train=10)
    assert len(Cifar10(path, cache=tmp_path).split("train")) == 72
    assert len(Cifar10(other / path.name, cache=tmp_path).split("train")) == 36


def test_take_keeps_the_order(path: Path, tmp_path: Path) -> None:
    test = Cifar10(path, cache=tmp_path).split("test")
    assert test.take(np.array([30, 0])).labels.tolist() == [3, 0]


def test_a_damaged_cache_says_what_to_delete(path: Path, tmp_path: Path) -> None:
    pictures = Cifar10(path, cache=tmp_path)
    next(tmp_path.iterdir()).joinpath("test-labels.npy").write_bytes(b"no array")
    with pytest.raises(Cifar10CacheError, match="delete it"):
        pictures.split("test")


def test_a_cache_that_cannot_be_written(path: Path, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_bytes(b"")
    with pytest.raises(Cifar10CacheError):
        Cifar10(path, cache=blocked)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(Cifar10Error, match="No such file") as caught:
        Cifar10(tmp_path / "none.tar", cache=tmp_path)
    assert "HEADTAIL_DATA" in caught.value.advice


def test_no_tar(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    path.write_bytes(b"nothing" * 200)
    with pytest.raises(Cifar10Error):
        Cifar10(path, cache=tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_cut_off(path: Path, tmp_path: Path) -> None:
    short = tmp_path / "short.tar"
    shutil.copy(path, short)
    with short.open("r+b") as file:
        file.truncate(20_000)
    with pytest.raises(Cifar10Error):
        Cifar10(short, cache=tmp_path / "cache")


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"train/cat/1.jpg": jpeg(32, 32)}, "lacks classes"),
        ({"train/cat/1.jpg": jpeg(32, 32), "test/dog/1.jpg": jpeg(32, 32)}, "lacks classes"),
        ({"readme.txt": b"hello"}, "lacks classes"),
        ({"train/cat/1.jpg": jpeg(32, 40)}, "no picture of 32x32"),
        ({"train/cat/1.jpg": b"\xff\xd8 no"}, "no picture"),
        ({"train/cat/1.jpg": bytes(70_000)}, "70000 bytes"),
    ],
)
def test_what_is_no_cifar(tmp_path: Path, files: dict[str, bytes], told: str) -> None:
    path = write_tar(tmp_path / "x.tar", files)
    with pytest.raises(Cifar10Error, match=told):
        Cifar10(path, cache=tmp_path / "cache")


def test_too_many(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cifar10, "MAX_PICTURES", 50)
    with pytest.raises(Cifar10Error, match="more than 50"):
        Cifar10(path, cache=tmp_path)
