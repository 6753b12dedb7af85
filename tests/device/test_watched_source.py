"""A folder that pictures come into."""

import os
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest

from headtail_device.source import Frame, SourceOpener
from headtail_device.source.errors import NoSuchSourceError, SourceError
from headtail_device.source.watched import WatchedFolderSource
from headtail_fabric.clock import FakeClock
from headtail_fabric.errors import ConfigError
from headtail_models.bundle.manifest import Preprocess


def put(folder: Path, name: str, *, at_s: int = 1) -> Path:
    path = folder / name
    assert cv2.imwrite(str(path), np.zeros((4, 6, 3), dtype=np.uint8))
    os.utime(path, (at_s, at_s))
    return path


def watch(folder: Path, *events: Callable[[], object]) -> list[str]:
    """The names that are yielded while one event happens between any two looks; after the last
    there are two more."""
    script = list(events)
    looks_left = 2

    def wait(_: float) -> None:
        nonlocal looks_left
        if script:
            script.pop(0)()
        elif looks_left:
            looks_left -= 1
        else:
            source.close()

    source = WatchedFolderSource(folder, deadline_s=1.0, clock=FakeClock(), wait=wait)
    with source:
        items = list(source)
    assert [item.index for item in items] == list(range(len(items)))
    return [item.origin if isinstance(item, Frame) else f"!{item.origin}" for item in items]


def test_what_is_there_comes_first_by_time(tmp_path: Path) -> None:
    put(tmp_path, "a.png", at_s=2)
    put(tmp_path, "b.jpg", at_s=1)
    (tmp_path / "notes.txt").write_text("no picture")
    assert watch(tmp_path) == ["b.jpg", "a.png"]


def test_what_comes_later_follows_once(tmp_path: Path) -> None:
    names = watch(tmp_path, lambda: put(tmp_path, "a.png"), lambda: put(tmp_path, "b.png"))
    assert names == ["a.png", "b.png"]


def test_a_file_that_grows_is_not_read_half_written(tmp_path: Path) -> None:
    target = tmp_path / "a.png"
    whole = put(tmp_path, "whole.bin.png").read_bytes()
    (tmp_path / "whole.bin.png").unlink()
    names = watch(
        tmp_path,
        lambda: target.write_bytes(whole[:20]),
        lambda: target.write_bytes(whole),
    )
    assert names == ["a.png"]


def test_a_file_that_is_changed_is_another(tmp_path: Path) -> None:
    put(tmp_path, "a.png")
    names = watch(tmp_path, lambda: None, lambda: put(tmp_path, "a.png", at_s=5))
    assert names == ["a.png", "a.png"]


def test_what_goes_away_is_forgotten(tmp_path: Path) -> None:
    file = put(tmp_path, "a.png")
    names = watch(tmp_path, lambda: None, file.unlink, lambda: None, lambda: put(tmp_path, "a.png"))
    assert names == ["a.png", "a.png"]


def test_no_picture_is_unreadable_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"no")
    assert watch(tmp_path) == ["!a.png"]


def test_a_folder_that_goes_away_breaks_the_source(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    with pytest.raises(SourceError, match="No such file"):
        watch(folder, folder.rmdir)


def test_it_is_asked_for_by_name(tmp_path: Path) -> None:
    clock, sees = FakeClock(), Preprocess(kind="letterbox", width=8, height=8)
    opener = SourceOpener(pace="fast", deadline_s=1.0, clock=clock)
    source = opener.open(f"watch:{tmp_path}", sees)
    assert (source.name, source.live, source.rate_hz, source.frame_count) == (
        tmp_path.name,
        False,
        None,
        None,
    )
    with pytest.raises(NoSuchSourceError, match="is no folder to watch"):
        opener.open(f"watch:{__file__}", sees)
    with pytest.raises(ConfigError, match="pictures have no frame rate"):
        SourceOpener(pace="realtime", deadline_s=1.0, clock=clock).open(f"watch:{tmp_path}", sees)
