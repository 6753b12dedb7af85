"""A video of the frames with their answers drawn in."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import cv2
import numpy as np

from headtail_device.delivery import Finished
from headtail_device.sink.annotation import annotate
from headtail_device.sink.base import SinkError
from headtail_device.source.quiet import silence_opencv
from headtail_models.task import Picture

_DEFAULT_RATE_HZ: Final = 25.0
_RESERVE_BYTES: Final = 16 * 1024 * 1024
"""Left free on the disk: an MP4 file can't be played until its index, a few bytes a frame, has
been written at the end."""


class AnnotatedVideoSink:
    """MPEG-4 in an .mp4 file, or Motion JPEG in an .avi file, by the path's suffix; where MPEG-4
    is missing, an .avi file beside it.

    There is one picture for each frame, so that the video is as long as the source: a frame
    without an answer is written as it is, one that could not be read as the one before it. All
    pictures get the size of the first.

    OpenCV's writer does not tell when the disk is full. Therefore free space is looked at before
    each picture, writing ends while there is room for the index, and when the file is closed its
    frames are counted.
    """

    def __init__(
        self,
        path: Path,
        *,
        rate_hz: float | None,
        free_bytes: Callable[[Path], int] | None = None,
    ) -> None:
        """Raises SinkError when the folder can't be written to."""
        silence_opencv()
        self._path = path
        self._rate_hz = rate_hz or _DEFAULT_RATE_HZ
        self._free_bytes = free_bytes or _free_bytes
        self._writer: cv2.VideoWriter | None = None
        self._last: Picture | None = None
        self._lead = 0
        self._written = 0
        _check_writable(path)

    @property
    def path(self) -> str:
        return str(self._path)

    def write(self, finished: Finished) -> None:
        if finished.record.late:
            return  # its picture has been written
        if finished.picture is None and self._last is None:
            self._lead += 1  # no picture yet: the size is not known
            return
        picture = self._last if finished.picture is None else finished.picture
        assert picture is not None, "either was checked above"
        shown = picture
        if finished.record.answer is not None and finished.picture is not None:
            shown = annotate(picture, finished.record.answer)
        writer = self._open(picture)
        for _ in range(self._lead):
            self._put(writer, np.zeros_like(picture))
        self._lead = 0
        self._last = picture
        self._put(writer, shown)

    def close(self) -> None:
        if self._writer is None:
            if not self._written:
                self._path.unlink(missing_ok=True)  # there was no picture to put in
            return
        self._writer.release()
        self._writer = None
        self._last = None
        held = _frame_count(self._path)
        if held != self._written:
            raise SinkError(
                f"{self._path} holds {max(held, 0)} of {self._written} frames: is the disk full?",
                path=self.path,
            )

    def _open(self, picture: Picture) -> cv2.VideoWriter:
        if self._writer is None:
            size = (picture.shape[1], picture.shape[0])
            writer = _new_writer(self._path, self._rate_hz, size)
            if writer is None and self._path.suffix != ".avi":
                self._path.unlink(missing_ok=True)
                self._path = self._path.with_suffix(".avi")
                writer = _new_writer(self._path, self._rate_hz, size)
            if writer is None:
                raise SinkError(f"{self._path}: OpenCV can't write a video there", path=self.path)
            self._writer = writer
            self._size = size
        return self._writer

    def _put(self, writer: cv2.VideoWriter, picture: Picture) -> None:
        if self._free_bytes(self._path) < _RESERVE_BYTES:
            raise SinkError(
                f"{self._path}: the disk is nearly full; the video ends after "
                f"{self._written} frames",
                path=self.path,
            )
        if (picture.shape[1], picture.shape[0]) != self._size:
            picture = cv2.resize(picture, self._size).astype(np.uint8, copy=False)
        writer.write(picture)
        self._written += 1


def _new_writer(path: Path, rate_hz: float, size: tuple[int, int]) -> cv2.VideoWriter | None:
    code = "MJPG" if path.suffix == ".avi" else "mp4v"
    fourcc = cv2.VideoWriter.fourcc(*code)
    writer = cv2.VideoWriter(str(path), cv2.CAP_FFMPEG, fourcc, rate_hz, size)
    return writer if writer.isOpened() else None


def _frame_count(path: Path) -> int:
    capture = cv2.VideoCapture(str(path), cv2.CAP_FFMPEG)
    try:
        return int(capture.get(cv2.CAP_PROP_FRAME_COUNT))
    finally:
        capture.release()


def _free_bytes(path: Path) -> int:
    status = os.statvfs(path.parent)
    return status.f_bavail * status.f_frsize


def _check_writable(path: Path) -> None:
    """OpenCV says only that it can't; the system says why."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb"):
            pass
    except OSError as error:
        raise SinkError(f"{path}: {error.strerror}", path=str(path)) from error
