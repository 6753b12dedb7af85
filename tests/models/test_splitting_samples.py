"""Samples of a model's input."""

from pathlib import Path

import cv2
import numpy as np
import pytest

from headtail_fabric.codec.base import Array
from headtail_models.bundle.manifest import Preprocess
from headtail_models.splitting.errors import SampleError
from headtail_models.splitting.inputs import InputSpec
from headtail_models.splitting.samples import picture_input, read_samples

PICTURE = InputSpec(name="image", dtype="float32", shape=(1, 3, 8, 12), free_batch=True)
IDS = InputSpec(name="ids", dtype="int64", shape=(1, 5), free_batch=True)
MASK = InputSpec(name="mask", dtype="bool", shape=(1, 5), free_batch=True)


def save(path: Path, array: Array) -> Path:
    np.save(path, array)
    return path


def test_arrays_of_one_frame_and_of_several(tmp_path: Path) -> None:
    ids = np.arange(15, dtype=np.int64).reshape(3, 5)
    one = read_samples(save(tmp_path / "a.npy", ids[0]), [IDS], limit=9)
    assert one[0].inputs["ids"].shape == (1, 5)
    three = read_samples(save(tmp_path / "b.npy", ids), [IDS], limit=9)
    assert [sample.name for sample in three] == ["b.npy[0]", "b.npy[1]", "b.npy[2]"]
    assert three[2].inputs["ids"].tolist() == [[10, 11, 12, 13, 14]]
    assert len(read_samples(tmp_path, [IDS], limit=2)) == 2


def test_several_inputs_are_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", ids=np.zeros((2, 5), np.int64), mask=np.ones((2, 5), bool))
    samples = read_samples(tmp_path / "a.npz", [IDS, MASK], limit=9)
    assert len(samples) == 2
    assert samples[0].inputs["mask"].all()
    np.savez(tmp_path / "b.npz", ids=np.zeros((2, 5), np.int64), mask=np.ones((1, 5), bool))
    with pytest.raises(SampleError, match="different numbers"):
        read_samples(tmp_path / "b.npz", [IDS, MASK], limit=9)
    np.savez(tmp_path / "c.npz", ids=np.zeros((2, 5), np.int64))
    with pytest.raises(SampleError, match="not \\['ids', 'mask'\\]"):
        read_samples(tmp_path / "c.npz", [IDS, MASK], limit=9)
    with pytest.raises(SampleError, match="2 inputs"):
        read_samples(save(tmp_path / "d.npy", np.zeros(5)), [IDS, MASK], limit=9)


def test_pictures_are_prepared(tmp_path: Path) -> None:
    picture = np.full((20, 20, 3), 255, np.uint8)
    cv2.imwrite(str(tmp_path / "a.png"), picture)
    (letterboxed,) = read_samples(tmp_path, [PICTURE], limit=9)
    tensor = letterboxed.inputs["image"]
    assert tensor.shape == (1, 3, 8, 12)
    assert tensor[0, 0, 0, 0] == pytest.approx(127 / 255)
    assert tensor[0, 0, 4, 6] == 1
    assert letterboxed.picture is not None
    assert letterboxed.picture.shape == (20, 20, 3)
    crop = Preprocess(kind="centre-crop", width=1, height=1, mean=(0.5, 0.5, 0.5))
    (cropped,) = read_samples(tmp_path, [PICTURE], prepare=crop, limit=9)
    assert np.all(cropped.inputs["image"] == 0.5)


def test_other_files_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no sample")
    (tmp_path / "folder.png").mkdir()
    save(tmp_path / "a.npy", np.zeros(5, np.int64))
    assert len(read_samples(tmp_path, [IDS], limit=9)) == 1


def test_samples_that_do_not_fit(tmp_path: Path) -> None:
    with pytest.raises(SampleError, match="does not exist"):
        read_samples(tmp_path / "none", [IDS], limit=9)
    with pytest.raises(SampleError, match=r"holds no \.npy"):
        read_samples(tmp_path, [IDS], limit=9)
    with pytest.raises(SampleError, match="float64, input 'ids' is int64"):
        read_samples(save(tmp_path / "type.npy", np.zeros(5)), [IDS], limit=9)
    with pytest.raises(SampleError, match=r"shape \(7,\)"):
        read_samples(save(tmp_path / "shape.npy", np.zeros(7, np.int64)), [IDS], limit=9)
    (tmp_path / "broken.npy").write_bytes(b"\x93NUMPY broken")
    with pytest.raises(SampleError, match=r"broken\.npy"):
        read_samples(tmp_path / "broken.npy", [IDS], limit=9)
    (tmp_path / "broken.png").write_bytes(b"no picture")
    with pytest.raises(SampleError, match="takes none"):
        read_samples(tmp_path / "broken.png", [IDS], limit=9)
    with pytest.raises(SampleError, match="no picture that can be decoded"):
        read_samples(tmp_path / "broken.png", [PICTURE], limit=9)


def test_objects_are_not_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "evil.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(SampleError, match="allow_pickle"):
        read_samples(tmp_path / "evil.npy", [IDS], limit=9)


def test_which_inputs_are_pictures() -> None:
    assert picture_input([PICTURE]) is PICTURE
    assert picture_input([PICTURE, IDS]) is None
    assert picture_input([IDS]) is None
