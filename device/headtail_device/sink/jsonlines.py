"""One JSON object a line, one line a frame."""

import contextlib
import os
import sys
from datetime import datetime
from pathlib import Path

from headtail_device.delivery import Finished
from headtail_device.sink.base import SinkError
from headtail_device.sink.line import FrameLines


class JsonLinesSink:
    """Writes each line with one system call, so a reader sees whole lines, and a crash costs none.

    When the disk is full the torn line is cut off again. The path `-` is standard output.
    """

    def __init__(self, path: str, *, started_at: float, started: datetime) -> None:
        """For the times see `FrameLines`. Raises SinkError."""
        self.path = path
        self._lines = FrameLines(started_at=started_at, started=started)
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
        line = memoryview(self._lines.line(finished.record))
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
