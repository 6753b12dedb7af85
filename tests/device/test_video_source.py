"""Video files: whole, damaged, cut off, and in real time."""

import logging
from pathlib import Path

import pytest

from device_doubles import damage, write_video
from headtail_device.source import Frame, Unreadable
from headtail_device.source.errors import EmptySourceError, UnreadableVideoError
from headtail_device.source.video import VideoSource
from headtail_fabric.clock import FakeClock

CLOCK = FakeClock(50.0)


def source(path: Path) -> VideoSource:
    return VideoSource(path, deadline_s=0.5, clock=CLOCK)


@pytest.mark.parametrize("name", ["clip.mp4", "clip.avi"])
def test_every_frame_is_read_in_order(tmp_path: Path, name: str) -> None:
    with source(write_video(tmp_path / name)) as video:
        assert (video.name, video.live, video.rate_hz, video.frame_count) == (name, False, 10, 12)
        items = list(video)
    assert [item.index for item in items] == list(range(12))
    first = items[0]
    assert isinstance(first, Frame)
    assert repr(first) == f"<Frame 0 {name}#0 64x48 at 50.000>"
    assert first.data.dtype == "uint8"
    assert first.deadline_at == 50.5


def test_a_corrupt_frame_in_the_middle_is_told_and_reading_goes_on(tmp_path: Path) -> None:
    path = write_video(tmp_path / "clip.mp4", frames=30)
    damage(path, size_bytes=path.stat().st_size // 8)
    with source(path) as video:
        items = list(video)
    broken = [item for item in items if isinstance(item, Unreadable)]
    assert [item.index for item in items] == list(range(30))
    assert 0 < len(broken) < 8
    assert broken[0].reason == "the frame can't be decoded"
    assert 8 < broken[0].index < 22
    assert isinstance(items[-1], Frame)


def test_a_video_that_ends_early_is_read_as_far_as_it_goes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write_video(tmp_path / "clip.avi", frames=30)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with source(path) as video, caplog.at_level(logging.WARNING):
        items = list(video)
    assert 10 <= len(items) <= 20
    assert "ends before its announced length" in caplog.text


def test_a_video_without_its_index_is_unreadable(tmp_path: Path) -> None:
    path = write_video(tmp_path / "clip.mp4")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(UnreadableVideoError, match=r"clip\.mp4 can't be decoded"):
        source(path)


@pytest.mark.parametrize("content", [b"", b"hello" * 100])
def test_what_is_no_video_is_unreadable(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "clip.mp4"
    path.write_bytes(content)
    with pytest.raises(UnreadableVideoError):
        source(path)


def test_a_video_without_frames_is_empty(tmp_path: Path) -> None:
    path = write_video(tmp_path / "clip.avi", frames=0)
    with source(path) as video, pytest.raises(EmptySourceError, match="none of 0 frames"):
        list(video)


def test_a_video_of_broken_frames_only_is_unreadable(tmp_path: Path) -> None:
    path = write_video(tmp_path / "clip.mp4", frames=3)
    data = path.read_bytes()
    content, index = data.index(b"mdat") + 4, data.index(b"moov") - 4
    path.write_bytes(data[:content] + bytes(index - content) + data[index:])
    with source(path) as video, pytest.raises(UnreadableVideoError, match="none of 3 frames"):
        list(video)


class Sleeper:
    """Waits by turning the clock."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.slept: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.slept.append(round(seconds, 3))
        self.clock.advance(seconds)


def test_in_real_time_each_frame_comes_when_it_is_due(tmp_path: Path) -> None:
    clock = FakeClock(10.0)
    sleeper = Sleeper(clock)
    path = write_video(tmp_path / "clip.mp4", frames=4)
    with VideoSource(path, deadline_s=1, clock=clock, realtime=True, wait=sleeper) as video:
        assert video.live
        times = [item.captured_at for item in video if isinstance(item, Frame)]
    assert times == pytest.approx([10.0, 10.1, 10.2, 10.3])
    assert sleeper.slept == [0.1, 0.1, 0.1]


def test_in_real_time_a_late_reader_does_not_wait(tmp_path: Path) -> None:
    clock = FakeClock(10.0)
    sleeper = Sleeper(clock)
    path = write_video(tmp_path / "clip.mp4", frames=4)
    with VideoSource(path, deadline_s=1, clock=clock, realtime=True, wait=sleeper) as video:
        frames = iter(video)
        next(frames)
        clock.advance(0.25)
        assert [item.index for item in frames] == [1, 2, 3]
    assert sleeper.slept == [0.05]


def test_closing_ends_the_iteration(tmp_path: Path) -> None:
    with source(write_video(tmp_path / "clip.mp4")) as video:
        frames = iter(video)
        next(frames)
        video.close()
        assert list(frames) == []
