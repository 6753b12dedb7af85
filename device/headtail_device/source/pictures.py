"""Frames from picture files."""

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import cv2
import numpy as np

from headtail_device.source.errors import EmptySourceError, SourceError
from headtail_device.source.frame import Captured, Frame, Unreadable
from headtail_device.source.quiet import silence_opencv
from headtail_fabric.clock import Clock

SUFFIXES: Final = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff"})
MAX_FILE_BYTES: Final = 256 * 1024 * 1024


class PictureFolderSource:
    """Picture files one after the other, in the order given. A file that is no picture, or too
    large, or that can't be read, is yielded as Unreadable in its place."""

    def __init__(
        self, files: Sequence[Path], *, name: str, deadline_s: float, clock: Clock
    ) -> None:
        silence_opencv()
        self._files = files
        self._name = name
        self._deadline_s = deadline_s
        self._clock = clock
        self._closing = threading.Event()

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
    def live(self) -> bool:
        return False

    @property
    def rate_hz(self) -> float | None:
        return None

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

    def close(self) -> None:
        self._closing.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def read_picture(file: Path, *, index: int, deadline_s: float, clock: Clock) -> Captured:
    """The frame of a file, Unreadable when it is no picture, too large, or can't be read."""
    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            raise ValueError(f"the file is larger than {MAX_FILE_BYTES} bytes")
        encoded = np.frombuffer(file.read_bytes() or b"\0", dtype=np.uint8)
        picture = cv2.imdecode(encoded, cv2.IMREAD_COLOR_BGR)
        if picture is None:
            raise ValueError("the file is not a picture that can be decoded")
    except (OSError, ValueError, cv2.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        return Unreadable(index=index, origin=file.name, reason=reason)
    return Frame(
        index=index,
        data=picture.astype(np.uint8, copy=False),
        captured_at=clock.now(),
        deadline_s=deadline_s,
        origin=file.name,
    )
