"""Frames from picture files."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Self

import cv2
import numpy as np

from headtail_device.source.closing import ClosingSource
from headtail_device.source.errors import EmptySourceError, SourceError
from headtail_device.source.frame import Captured, Frame, Unreadable
from headtail_device.source.quiet import silence_opencv
from headtail_fabric.clock import Clock

SUFFIXES: Final = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff"})
MAX_FILE_BYTES: Final = 256 * 1024 * 1024


class PictureFolderSource(ClosingSource):
    """Picture files one after the other, in the order given. A file that is no picture, or too
    large, or that can't be read, is yielded as Unreadable in its place."""

    def __init__(
        self, files: Sequence[Path], *, name: str, deadline_s: float, clock: Clock
    ) -> None:
        super().__init__(deadline_s=deadline_s, clock=clock)
        silence_opencv()
        self._files = files
        self._name = name

    @classmethod
    def of_folder(cls, folder: Path, *, deadline_s: float, clock: Clock) -> Self:
        """The pictures directly in `folder`, sorted by name. Raises SourceError."""
        try:
            files = sorted(file for file in folder.iterdir() if file.suffix.lower() in SUFFIXES)
        except OSError as error:
            raise SourceError(f"{folder}: {error.strerror}", path=str(folder)) from error
        return cls(files, name=folder.resolve().name, deadline_s=deadline_s, clock=clock)

    @property
    def name(self) -> str:
        return self._name

    @property
    def frame_count(self) -> int | None:
        return len(self._files)

    def __iter__(self) -> Iterator[Captured]:
        if not self._files:
            raise EmptySourceError(f"{self._name} holds no picture ({', '.join(sorted(SUFFIXES))})")
        for index, file in enumerate(self._files):
            if self._closing.is_set():
                return
            yield read_picture(file, index=index, deadline_s=self._deadline_s, clock=self._clock)


def read_picture(file: Path, *, index: int, deadline_s: float, clock: Clock) -> Captured:
    """The frame of a file, Unreadable when it is no picture, too large, or can't be read."""
    try:
        size_bytes = file.stat().st_size
        encoded = file.read_bytes() if size_bytes <= MAX_FILE_BYTES else b""
    except OSError as error:
        reason = error.strerror or str(error)
        return Unreadable(index=index, origin=file.name, reason=reason)
    if size_bytes > MAX_FILE_BYTES:
        reason = f"the file is larger than {MAX_FILE_BYTES} bytes"
        return Unreadable(index=index, origin=file.name, reason=reason)
    return decoded_picture(
        encoded, index=index, origin=file.name, deadline_s=deadline_s, clock=clock
    )


def decoded_picture(
    encoded: bytes, *, index: int, origin: str, deadline_s: float, clock: Clock
) -> Captured:
    """The frame of a picture file's bytes, Unreadable when they are none."""
    try:
        picture = cv2.imdecode(
            np.frombuffer(encoded or b"\0", dtype=np.uint8), cv2.IMREAD_COLOR_BGR
        )
        if picture is None:
            raise ValueError("not a picture that can be decoded")
    except (ValueError, cv2.error) as error:
        return Unreadable(index=index, origin=origin, reason=str(error))
    return Frame(
        index=index,
        data=picture.astype(np.uint8, copy=False),
        captured_at=clock.now(),
        deadline_s=deadline_s,
        origin=origin,
    )
