"""Picture files as a source."""

from pathlib import Path

import cv2
import pytest

from device_doubles import picture
from headtail_device.source import Frame, Unreadable, pictures
from headtail_device.source.errors import EmptySourceError, SourceError
from headtail_device.source.pictures import PictureFolderSource
from headtail_fabric.clock import FakeClock

CLOCK = FakeClock(5.0)


def save(path: Path) -> None:
    assert cv2.imwrite(str(path), picture(height=6, width=9))


def folder_source(folder: Path) -> PictureFolderSource:
    return PictureFolderSource.of_folder(folder, deadline_s=1, clock=CLOCK)


def test_pictures_come_sorted_by_name_and_other_files_do_not(tmp_path: Path) -> None:
    for name in ("b.png", "a.JPG", "c.webp"):
        save(tmp_path / name)
    (tmp_path / "notes.txt").write_text("no picture")
    with folder_source(tmp_path) as source:
        assert (source.name, source.live, source.rate_hz) == (tmp_path.name, False, None)
        assert source.frame_count == 3
        items = list(source)
    assert [(item.index, item.origin) for item in items] == [
        (0, "a.JPG"),
        (1, "b.png"),
        (2, "c.webp"),
    ]
    assert all(isinstance(item, Frame) and item.data.shape == (6, 9, 3) for item in items)


def test_what_cannot_be_read_is_told_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path / "a.png")
    (tmp_path / "b.png").write_bytes(b"no picture")
    (tmp_path / "c.png").write_bytes(b"")
    (tmp_path / "d.png").mkdir()
    (tmp_path / "e.png").write_bytes(bytes(3000))
    monkeypatch.setattr(pictures, "MAX_FILE_BYTES", 2999)
    with folder_source(tmp_path) as source:
        items = list(source)
    assert isinstance(items[0], Frame)
    reasons = [item.reason for item in items[1:] if isinstance(item, Unreadable)]
    assert reasons[:2] == ["not a picture that can be decoded"] * 2
    assert reasons[2] in ("Is a directory", "the file is larger than 2999 bytes")
    assert reasons[3] == "the file is larger than 2999 bytes"


def test_a_folder_without_pictures_is_empty(tmp_path: Path) -> None:
    with folder_source(tmp_path) as source, pytest.raises(EmptySourceError, match="no picture"):
        list(source)


def test_a_folder_that_cannot_be_listed_says_why(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(SourceError, match="Not a directory"):
        folder_source(file)


def test_closing_ends_the_iteration(tmp_path: Path) -> None:
    save(tmp_path / "a.png")
    save(tmp_path / "b.png")
    with folder_source(tmp_path) as source:
        items = iter(source)
        next(items)
        source.close()
        assert list(items) == []
