"""Readings and sounds that come bit by bit."""

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from headtail_device.source import Frame, Unreadable
from headtail_device.source.errors import EmptySourceError, NoSuchSourceError, SourceError
from headtail_device.source.lines import LineSource
from headtail_device.source.microphone import MicrophoneStream
from headtail_device.source.readings import (
    MAX_LINE_BYTES,
    BadReadingError,
    looks_like_titles,
    parse_reading,
)
from headtail_device.source.serial_port import SerialStream
from headtail_device.source.sound_stream import SoundStreamSource
from headtail_device.source.stream import DescriptorStream
from headtail_device.source.windows import Windows
from headtail_fabric.clock import FakeClock
from headtail_models.audio.log_mel import LogMel
from headtail_models.bundle.manifest import Signal

SIGNAL = Signal(rate_hz=10, window=3, hop=1, offset=(0.0, 0.0), scale=(1.0, 1.0))
FRONT = LogMel()


class Pieces:
    """A stream by script: None is a read that brought nothing."""

    def __init__(self, *script: bytes | Exception | None) -> None:
        self._script = list(script)
        self.closed = False

    def read(self) -> bytes | None:
        piece = self._script.pop(0) if self._script else b""
        if isinstance(piece, Exception):
            raise piece
        return piece

    def close(self) -> None:
        self.closed = True


def lines(*script: bytes | Exception | None, signal: Signal = SIGNAL) -> list[Frame | Unreadable]:
    stream = Pieces(*script)
    source = LineSource(
        stream, name="s", signal=signal, deadline_s=1.0, clock=FakeClock(5.0), live=True
    )
    with source:
        items = list(source)
    assert stream.closed
    assert [item.index for item in items] == list(range(len(items)))
    return items


@given(
    length=st.integers(1, 9),
    hop=st.integers(1, 12),
    pieces=st.lists(st.integers(0, 15), max_size=8),
)
def test_windows_are_those_of_the_whole(length: int, hop: int, pieces: list[int]) -> None:
    whole = np.arange(sum(pieces) * 2).reshape(-1, 2)
    windows, got, at = Windows(length=length, hop=hop), [], 0
    for count in pieces:
        got += list(windows.add(whole[at : at + count]))
        at += count
    starts = range(0, len(whole) - length + 1, hop)
    expected = [whole[start : start + length] for start in starts]
    assert len(got) == len(expected)
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(("length", "hop"), [(0, 1), (1, 0)])
def test_windows_of_nothing_are_refused(length: int, hop: int) -> None:
    with pytest.raises(ValueError, match="apart"):
        Windows(length=length, hop=hop)


@pytest.mark.parametrize("line", [b"1,2", b" 1.0 ; 2e0 ", b"1\t2\r", b"1, 2,", b"1700000000,1,2"])
def test_a_line_of_numbers_is_a_reading(line: bytes) -> None:
    reading = parse_reading(line, channels=2)
    assert reading is not None
    assert reading.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("line", [b"", b"  \r", b"# a remark"])
def test_empty_lines_and_remarks_are_nothing(line: bytes) -> None:
    assert parse_reading(line, channels=2) is None


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"1", "1 numbers, 2 are expected"),
        (b"1,2,3,4", "4 numbers"),
        (b"1,x", "not a row"),
        (b"1,nan", "not finite"),
        (b"1,1e99", "not finite"),
        (b"\xff\xfe,2", "not a row"),
        (b"1" * (MAX_LINE_BYTES + 1), "more than"),
    ],
)
def test_anything_else_says_why_not(line: bytes, why: str) -> None:
    with pytest.raises(BadReadingError, match=why):
        parse_reading(line, channels=2)


def test_titles_are_words_only() -> None:
    assert looks_like_titles(b"x,y")
    assert not looks_like_titles(b"1,x")
    assert not looks_like_titles(b"")


def test_windows_of_lines_wherever_the_pieces_end() -> None:
    items = lines(b"x,y\n1,", None, b"2\n3,4\n5", b",6\n7,8")
    frames = [item for item in items if isinstance(item, Frame)]
    assert [frame.data.tolist() for frame in frames] == [
        [[1, 2], [3, 4], [5, 6]],
        [[3, 4], [5, 6], [7, 8]],
    ]
    assert frames[0].data.dtype == np.float32
    assert [(frame.captured_at, frame.origin) for frame in frames] == [(5.0, "s:4"), (5.0, "s:5")]


def test_a_line_that_is_none_is_told_and_passed_over() -> None:
    items = lines(b"1,2\nnoise\n3,4\n5,6\n")
    assert isinstance(items[0], Unreadable)
    assert items[0].origin == "s:2"
    assert isinstance(items[1], Frame)


def test_a_line_without_an_end_costs_no_memory() -> None:
    items = lines(b"1,2\n", *[b"9" * MAX_LINE_BYTES] * 7, b"\n3,4\n5,6\n")
    assert [type(item) for item in items][-1] is Frame
    assert {type(item) for item in items[:-1]} == {Unreadable}


def test_too_few_readings_are_an_error() -> None:
    with pytest.raises(EmptySourceError, match="window of 3"):
        lines(b"1,2\n3,4\n")


def test_a_stream_that_breaks_is_an_error() -> None:
    with pytest.raises(SourceError, match="s: gone"):
        lines(b"1,2\n", OSError("gone"))


def heard(pieces: Sequence[bytes | None]) -> list[NDArray[Any]]:
    source = SoundStreamSource(
        Pieces(*pieces), name="mic", front=FRONT, deadline_s=1.0, clock=FakeClock(), live=True
    )
    with source:
        items = list(source)
    assert all(isinstance(item, Frame) for item in items)
    return [item.data for item in items if isinstance(item, Frame)]


def test_sound_comes_in_overlapping_windows() -> None:
    count = FRONT.patch_samples + FRONT.hop_samples
    samples = np.arange(count) % 3000 - 1500
    data = samples.astype("<i2").tobytes()
    windows = heard([data[:1001], None, data[1001:4000], data[4000:]])
    assert len(windows) == 2
    expected = (samples / 32_768).astype(np.float32)
    np.testing.assert_array_equal(windows[0], expected[: FRONT.patch_samples])
    np.testing.assert_array_equal(windows[1], expected[FRONT.hop_samples :])


class Recording:
    """A microphone that has spoken when it is started."""

    def __init__(self, blocks: Sequence[bytes]) -> None:
        self._blocks = blocks
        self.closed = False
        self.asked: tuple[object, ...] = ()

    def __call__(
        self, device: str | int | None, rate: int, block: int, callback: Callable[..., None]
    ) -> "Recording":
        self.asked = (device, rate, block)
        self._callback = callback
        return self

    def start(self) -> None:
        for block in self._blocks:
            self._callback(block, len(block) // 2, None, None)

    def close(self) -> None:
        self.closed = True


def test_a_microphone_is_a_stream() -> None:
    recording = Recording([b"ab", b"cd"])
    stream = MicrophoneStream("3", rate=16_000, open_recording=recording)
    assert recording.asked == (3, 16_000, 320)
    assert [stream.read(), stream.read(), stream.read()] == [b"ab", b"cd", None]
    stream.close()
    assert recording.closed


def test_what_nobody_takes_is_lost_and_counted() -> None:
    recording = Recording([b"%4d" % number for number in range(503)])
    stream = MicrophoneStream("", rate=16_000, open_recording=recording)
    assert recording.asked[0] is None
    assert (stream.lost, stream.read()) == (3, b"   3")


def test_a_microphone_that_is_not_there_is_told() -> None:
    def nothing(*_: object) -> Recording:
        raise ValueError("no input device")

    with pytest.raises(NoSuchSourceError, match="microphone USB: no input device"):
        MicrophoneStream("USB", rate=16_000, open_recording=nothing)


def test_a_pipe_is_read_to_its_end() -> None:
    reader, writer = os.pipe()
    stream = DescriptorStream(reader, own=True)
    os.write(writer, b"1,2\n")
    assert stream.read() == b"1,2\n"
    assert stream.read() is None
    os.close(writer)
    assert stream.read() == b""
    stream.close()
    stream.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(reader)


def test_a_serial_port_is_a_stream() -> None:
    board, port = os.openpty()
    stream = SerialStream(f"{os.ttyname(port)}@9600")
    os.write(board, b"1,2\n")
    came = b""
    while len(came) < 4:
        came += stream.read() or b""
    assert came == b"1,2\n"
    assert stream.read() is None
    stream.close()
    os.close(board)
    os.close(port)
