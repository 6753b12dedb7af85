"""Which clip belongs to which split, and how they are read."""

import io
import tarfile
import wave
from pathlib import Path

import numpy as np
import pytest

from headtail_models.audio.clips import (
    ClipsError,
    digit_clips,
    digit_split,
    folder_clips,
    split_of,
)


def recording(seconds: float, rate: int = 8000) -> bytes:
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(np.full(int(seconds * rate), 1000, dtype="<i2").tobytes())
    return buffer.getvalue()


def digits(path: Path, names: list[str]) -> Path:
    with tarfile.open(path, "w") as tar:
        for name in names:
            data = recording(0.1)
            entry = tarfile.TarInfo(f"recordings/{name}")
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return path


def test_the_digits_keep_the_split_of_their_authors() -> None:
    splits = [digit_split(f"7_jackson_{index}.wav") for index in (0, 4, 5, 9, 10, 49)]
    assert splits == ["test", "test", "calibration", "calibration", "train", "train"]


def test_most_clips_are_trained_on_and_none_twice() -> None:
    names = [f"clip{number}.wav" for number in range(1000)]
    shares = [sum(split_of(name) == split for name in names) for split in ("train", "test")]
    assert shares[0] > 750
    assert 60 < shares[1] < 140


def test_digits_come_at_the_rate_of_the_network(tmp_path: Path) -> None:
    path = digits(tmp_path / "digits.tar", ["0_a_0.wav", "0_a_7.wav", "0_a_20.wav", "notes.txt"])
    for split, name in (("test", "0_a_0.wav"), ("train", "0_a_20.wav")):
        (clip,) = digit_clips(path, split)  # type: ignore[arg-type]
        assert (clip.name, clip.samples.size) == (name, 1600)


def test_a_folder_is_searched_and_clips_are_cut(tmp_path: Path) -> None:
    (tmp_path / "bells").mkdir()
    for number in range(30):
        (tmp_path / "bells" / f"{number}.wav").write_bytes(recording(0.2))
    found = [clip.name for clip in folder_clips(tmp_path, "test", seconds=0.1)]
    assert found == sorted(
        name for name in (f"bells/{number}.wav" for number in range(30)) if split_of(name) == "test"
    )
    assert all(clip.samples.size == 1600 for clip in folder_clips(tmp_path, "test", seconds=0.1))


def test_an_archive_that_is_none_is_named(tmp_path: Path) -> None:
    path = tmp_path / "digits.tar"
    path.write_bytes(b"no archive")
    with pytest.raises(ClipsError, match=r"digits\.tar"):
        list(digit_clips(path, "test"))
    digits(path, ["nameless.wav"])
    with pytest.raises(ClipsError, match=r"digits\.tar"):
        list(digit_clips(path, "test"))
