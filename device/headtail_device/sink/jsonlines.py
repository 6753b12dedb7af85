"""One JSON object a line, one line a frame."""

import contextlib
import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from headtail_device.delivery import Finished
from headtail_device.ledger import Latency
from headtail_device.record import FrameRecord
from headtail_device.sink.base import SinkError


class JsonLinesSink:
    """Writes each line with one system call, so a reader sees whole lines, and a crash costs none.

    `started_at` and `started` are the same moment, on the frames' clock and on the calendar:
    steps of the machine's clock during the run don't show. When the disk is full the torn line is
    cut off again. The path `-` is standard output.
    """

    def __init__(self, path: str, *, started_at: float, started: datetime) -> None:
        """Raises SinkError."""
        self.path = path
        self._started_at = started_at
        self._started = started
        self._size_bytes = 0
        try:
            if path == "-":
                self._descriptor = os.dup(sys.stdout.fileno())
            else:
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        except OSError as error:
            raise SinkError(f"{path}: {error.strerror}", path=path) from error

    def write(self, finished: Finished) -> None:
        line = memoryview(msgspec.json.encode(self._line(finished.record)) + b"\n")
        size_bytes = len(line)
        try:
            while line:
                line = line[os.write(self._descriptor, line) :]
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, self._size_bytes)
            raise SinkError(f"{self.path}: {error.strerror}", path=self.path) from error
        self._size_bytes += size_bytes

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor < 0:
            return
        try:
            os.close(descriptor)
        except OSError as error:  # a network file system may tell only now
            raise SinkError(f"{self.path}: {error.strerror}", path=self.path) from error

    def _line(self, record: FrameRecord) -> dict[str, object]:
        line: dict[str, object] = {
            "frame": record.index,
            "origin": record.origin,
            "outcome": record.outcome.value,
        }
        if record.captured_at is not None:
            offset_s = record.captured_at - self._started_at
            line["captured_s"] = round(offset_s, 6)
            line["captured"] = _calendar(self._started + timedelta(seconds=offset_s))
        if record.cut is not None:
            line |= {"cut": record.cut, "codec": record.codec, "attempts": record.attempts}
            line["bytes"] = {
                "up": record.bytes_up,
                "down": record.bytes_down,
                "payload": record.payload_bytes,
            }
        if record.latency is not None:
            line["ms"] = _milliseconds(record.latency)
        if record.answer is not None:
            line["answer"] = record.answer.to_json()
        if record.reason:
            line["reason"] = record.reason
        return line


def _calendar(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _milliseconds(latency: Latency) -> dict[str, float]:
    return {
        part: round(getattr(latency, f"{part}_s") * 1000, 3)
        for part in ("total", "head", "wire", "queue", "tail", "wait")
    }
