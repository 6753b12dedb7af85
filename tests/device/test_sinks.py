"""Where finished frames go, and what happens when they can't."""

import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import cv2
import numpy as np
import pytest

from device_doubles import BY_DEVICE, picture
from headtail_device.delivery import Finished
from headtail_device.ledger import Latency, Outcome
from headtail_device.record import FrameRecord
from headtail_device.sink import (
    AnnotatedPicturesSink,
    AnnotatedVideoSink,
    JsonLinesSink,
    SinkBoard,
    SinkError,
)
from headtail_device.sink.annotation import annotate
from headtail_models.bundle.manifest import Filter, StageEntry
from headtail_models.head_chain import Verdict
from headtail_models.task import Box, ClassifyAnswer, DetectAnswer, Picture

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
BOX = Box(label="dog", class_id=1, score=0.9, x1=10, y1=10, x2=40, y2=40)


def finished(
    index: int, outcome: Outcome = Outcome.EDGE, *, shown: Picture | None = None
) -> Finished:
    record = FrameRecord(
        index=index,
        origin=f"clip#{index}",
        outcome=outcome,
        captured_at=100.25,
        cut="middle",
        codec="q8",
        attempts=1,
        latency=Latency(head_s=0.01, wire_s=0.02, queue_s=0.003, tail_s=0.004, total_s=0.05),
        bytes_up=1000,
        bytes_down=100,
        payload_bytes=900,
        answer=DetectAnswer(boxes=(BOX,)),
    )
    return Finished(record=record, picture=shown)


def unseen(index: int, outcome: Outcome) -> Finished:
    record = FrameRecord(index=index, origin=f"clip#{index}", outcome=outcome, reason="broken")
    return Finished(record=record, picture=None)


def json_sink(path: Path | str) -> JsonLinesSink:
    return JsonLinesSink(str(path), started_at=100.0, started=NOON)


class TestJsonLines:
    def test_one_line_a_frame(self, tmp_path: Path) -> None:
        path = tmp_path / "new" / "out.jsonl"
        sink = json_sink(path)
        sink.write(finished(0))
        sink.write(unseen(1, Outcome.UNREADABLE))
        first, second = map(json.loads, path.read_text().splitlines())  # before it is closed
        sink.close()
        sink.close()
        assert first == {
            "frame": 0,
            "origin": "clip#0",
            "outcome": "edge",
            "captured_s": 0.25,
            "captured": "2026-05-01T12:00:00.250Z",
            "cut": "middle",
            "codec": "q8",
            "attempts": 1,
            "bytes": {"up": 1000, "down": 100, "payload": 900},
            "ms": {"total": 50, "head": 10, "wire": 20, "queue": 3, "tail": 4, "wait": 13},
            "answer": DetectAnswer(boxes=(BOX,)).to_json(),
        }
        assert second == {
            "frame": 1,
            "origin": "clip#1",
            "outcome": "unreadable",
            "reason": "broken",
        }

    def test_a_frame_that_a_gate_ended_says_which(self, tmp_path: Path) -> None:
        entry = StageEntry(file="f", inputs=(), outputs=(), macs=3)
        gate = Filter(name="presence", branch=entry, threshold=0.5, recall=0.9)
        verdict = Verdict(gate=gate, confidence=0.25, ends=True, shares=np.array([0.75, 0.25]))
        record = FrameRecord(
            index=0,
            origin="clip#0",
            outcome=Outcome.FILTERED,
            cut="middle",
            latency=Latency(head_s=0.01, total_s=0.01),
            macs=1234,
            gate="presence",
            verdicts=(verdict,),
            answer=DetectAnswer(boxes=()),
        )
        sink = json_sink(tmp_path / "out.jsonl")
        sink.write(Finished(record=record, picture=None))
        sink.close()
        assert json.loads((tmp_path / "out.jsonl").read_text()) == {
            "frame": 0,
            "origin": "clip#0",
            "outcome": "filtered",
            "cut": "middle",
            "gate": "presence",
            "confidence": {"presence": 0.25},
            "ms": {"total": 10, "head": 10, "wire": 0, "queue": 0, "tail": 0, "wait": 0},
            "macs": 1234,
            "answer": {"task": "detect", "boxes": []},
        }

    def test_a_full_disk_is_told(self) -> None:
        sink = json_sink("/dev/full")
        with pytest.raises(SinkError, match="/dev/full: No space left on device"):
            sink.write(finished(0))
        sink.close()

    def test_a_torn_line_is_cut_off(self, tmp_path: Path) -> None:
        path = tmp_path / "out.jsonl"
        sink = json_sink(path)
        sink.write(finished(0))
        size = path.stat().st_size
        with limited_file_size(size + 20), pytest.raises(SinkError, match="File too large"):
            sink.write(finished(1))
        sink.close()
        assert path.stat().st_size == size

    def test_a_path_that_cannot_be_written_is_told_at_once(self, tmp_path: Path) -> None:
        with pytest.raises(SinkError, match="Is a directory"):
            json_sink(tmp_path)
        (tmp_path / "file").touch()
        with pytest.raises(SinkError, match=r"file/out\.jsonl: (Not a directory|File exists)"):
            json_sink(tmp_path / "file" / "out.jsonl")

    def test_the_dash_is_standard_output(self, capfd: pytest.CaptureFixture[str]) -> None:
        sink = json_sink("-")
        sink.write(unseen(3, Outcome.DROPPED))
        sink.close()
        assert json.loads(capfd.readouterr().out)["frame"] == 3


class TestVideo:
    @pytest.mark.parametrize("name", ["out.mp4", "out.avi"])
    def test_every_frame_is_one_picture_of_the_video(self, tmp_path: Path, name: str) -> None:
        path = tmp_path / "new" / name
        sink = AnnotatedVideoSink(path, rate_hz=12.5)
        shown = picture(height=48, width=64)
        sink.write(unseen(0, Outcome.UNREADABLE))
        sink.write(finished(1, shown=shown))
        sink.write(unseen(2, Outcome.DROPPED))
        sink.write(Finished(record=unseen(3, Outcome.EXPIRED).record, picture=shown))
        sink.write(finished(4, shown=picture(height=20, width=20)))
        sink.close()
        sink.close()
        frames, rate = read_back(path)
        assert len(frames) == 5
        assert rate == 12.5
        assert all(frame.shape == (48, 64, 3) for frame in frames)
        assert frames[1].max() > 150  # a box was drawn
        assert max(frames[index].max() for index in (0, 2, 3)) < 60

    def test_the_disk_is_watched(self, tmp_path: Path) -> None:
        free = [1 << 30]
        path = tmp_path / "out.mp4"
        sink = AnnotatedVideoSink(path, rate_hz=None, free_bytes=lambda _: free[0])
        sink.write(finished(0, shown=picture(height=48, width=64)))
        free[0] = 1 << 20
        with pytest.raises(SinkError, match="nearly full; the video ends after 1 frames"):
            sink.write(finished(1, shown=picture(height=48, width=64)))
        sink.close()
        assert len(read_back(path)[0]) == 1

    def test_a_video_that_is_not_whole_is_told_when_it_is_closed(self, tmp_path: Path) -> None:
        sink = AnnotatedVideoSink(tmp_path / "out.mp4", rate_hz=10)
        noise = np.random.default_rng(0)
        with limited_file_size(50_000):
            for index in range(30):
                shown = noise.integers(0, 256, (120, 160, 3), dtype=np.uint8)
                sink.write(finished(index, shown=shown))
            with pytest.raises(SinkError, match=r"out\.mp4 holds 0 of 30 frames: is the disk full"):
                sink.close()

    def test_without_a_picture_there_is_no_video(self, tmp_path: Path) -> None:
        path = tmp_path / "out.mp4"
        sink = AnnotatedVideoSink(path, rate_hz=10)
        sink.write(unseen(0, Outcome.UNREADABLE))
        sink.close()
        assert not path.exists()

    def test_a_path_that_cannot_be_written_is_told_at_once(self, tmp_path: Path) -> None:
        (tmp_path / "out.mp4").mkdir()
        with pytest.raises(SinkError, match=r"out\.mp4: Is a directory"):
            AnnotatedVideoSink(tmp_path / "out.mp4", rate_hz=10)

    def test_where_mpeg4_is_missing_motion_jpeg_takes_its_place(self, tmp_path: Path) -> None:
        path = tmp_path / "out.xyz"  # no container has that suffix
        sink = AnnotatedVideoSink(path, rate_hz=10)
        sink.write(finished(0, shown=picture(height=48, width=64)))
        sink.close()
        assert sink.path == str(tmp_path / "out.avi")
        assert len(read_back(tmp_path / "out.avi")[0]) == 1
        assert not path.exists()


class TestPictures:
    def test_each_picture_is_a_file(self, tmp_path: Path) -> None:
        folder = tmp_path / "a" / "b"
        sink = AnnotatedPicturesSink(folder)
        sink.write(finished(7, shown=picture(height=48, width=64)))
        sink.write(unseen(8, Outcome.UNREADABLE))
        sink.write(
            Finished(record=unseen(9, Outcome.EXPIRED).record, picture=picture(height=5, width=6))
        )
        sink.close()
        assert sorted(file.name for file in folder.iterdir()) == [
            "frame-000007.jpg",
            "frame-000009.jpg",
        ]
        drawn = cv2.imread(str(folder / "frame-000007.jpg"))
        assert drawn is not None
        assert drawn.max() > 150

    def test_a_file_that_cannot_be_written_whole_is_removed(self, tmp_path: Path) -> None:
        sink = AnnotatedPicturesSink(tmp_path)
        with limited_file_size(100), pytest.raises(SinkError, match=r"frame-000000\.jpg"):
            sink.write(finished(0, shown=picture(height=480, width=640)))
        assert list(tmp_path.iterdir()) == []

    def test_a_folder_that_cannot_be_made_is_told(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(SinkError, match="file"):
            AnnotatedPicturesSink(tmp_path / "file")


class ScriptedSink:
    def __init__(self, path: str, *, fails_at: int | None = None, fails_closing: bool = False):
        self.path = path
        self.written: list[int] = []
        self.closed = 0
        self._fails_at = fails_at
        self._fails_closing = fails_closing

    def write(self, finished: Finished) -> None:
        if finished.record.index == self._fails_at:
            raise SinkError(f"{self.path}: full")
        self.written.append(finished.record.index)

    def close(self) -> None:
        self.closed += 1
        if self._fails_closing:
            raise SinkError(f"{self.path}: not whole")


class TestBoard:
    def test_a_sink_that_fails_is_taken_off_and_the_others_go_on(self) -> None:
        good, bad = ScriptedSink("good"), ScriptedSink("bad", fails_at=1, fails_closing=True)
        board = SinkBoard()
        board.add(bad)
        board.add(good)
        for index in range(3):
            board.write(finished(index))
        assert (bad.written, good.written) == ([0], [0, 1, 2])
        assert bad.closed == 1
        assert repr(board) == "<SinkBoard ['good'] failures=1>"
        board.close()
        board.close()
        assert good.closed == 1
        assert board.paths == ("good",)
        assert [failure.message for failure in board.failures] == ["bad: full"]

    def test_a_sink_that_is_not_whole_in_the_end_has_failed(self) -> None:
        board = SinkBoard()
        board.add(ScriptedSink("late", fails_closing=True))
        board.close()
        assert board.paths == ()
        assert [failure.message for failure in board.failures] == ["late: not whole"]


class TestAnnotation:
    def test_boxes_and_labels_are_drawn_on_a_copy(self) -> None:
        plain = picture(height=100, width=200)
        top = ClassifyAnswer(top=(("cat", 0.8), ("dog", 0.1)))
        for answer in (DetectAnswer(boxes=(BOX,)), top, BY_DEVICE):
            drawn = annotate(plain, answer)
            assert drawn.shape == plain.shape
            assert drawn.max() > 150
        assert plain.max() == 0


def read_back(path: Path) -> tuple[list[Picture], float]:
    capture = cv2.VideoCapture(str(path), cv2.CAP_FFMPEG)
    frames = []
    while True:
        done, shown = capture.read()
        if not done:
            break
        frames.append(shown.astype(np.uint8, copy=False))
    rate = capture.get(cv2.CAP_PROP_FPS)
    capture.release()
    return frames, rate


@contextmanager
def limited_file_size(size_bytes: int) -> Iterator[None]:
    """As on a full disk, a write beyond `size_bytes` fails; Python ignores the signal."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
