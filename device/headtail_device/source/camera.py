"""Frames of a camera or a network stream, as they come."""

import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Final, Protocol, Self

import cv2
import numpy as np

from headtail_device.source.errors import CameraError
from headtail_device.source.frame import Captured, Frame
from headtail_device.source.quiet import silence_opencv
from headtail_fabric.clock import Clock
from headtail_fabric.codec.base import Array

_TIMEOUT_MS: Final = 10_000
_FAILURES_ALLOWED: Final = 3


class Capture(Protocol):
    """What is used of `cv2.VideoCapture`."""

    def isOpened(self) -> bool: ...  # noqa: N802 (OpenCV's name)

    def read(self) -> tuple[bool, Array | None]: ...

    def get(self, prop: int, /) -> float: ...

    def release(self) -> None: ...


class CameraSource:
    """A camera by number or device file, or a stream by address.

    Nothing is buffered here: whoever iterates must keep up or drop frames (`live`). After a few
    failed reads in a row the camera counts as gone and CameraError is raised.
    """

    def __init__(
        self,
        camera: int | str,
        *,
        deadline_s: float,
        clock: Clock,
        open_capture: Callable[[int | str], Capture] | None = None,
    ) -> None:
        """Raises CameraError when the camera can't be opened."""
        silence_opencv()
        self._name = f"camera {camera}" if isinstance(camera, int) else _without_password(camera)
        self._deadline_s = deadline_s
        self._clock = clock
        self._closing = threading.Event()
        self._capture = (open_capture or _open)(camera)
        if not self._capture.isOpened():
            raise CameraError(f"{self._name} can't be opened", camera=self._name)
        self._rate_hz = self._capture.get(cv2.CAP_PROP_FPS)

    @property
    def name(self) -> str:
        return self._name

    @property
    def live(self) -> bool:
        return True

    @property
    def rate_hz(self) -> float | None:
        return self._rate_hz if 0 < self._rate_hz < 1000 else None

    @property
    def frame_count(self) -> int | None:
        return None

    def __iter__(self) -> Iterator[Captured]:
        index = failures = 0
        while not self._closing.is_set():
            done, picture = self._capture.read()
            captured_at = self._clock.now()
            if not done or picture is None:
                failures += 1
                if failures > _FAILURES_ALLOWED and not self._closing.is_set():
                    raise CameraError(f"{self._name} gives no more pictures", camera=self._name)
                continue
            failures = 0
            yield Frame(
                index=index,
                data=picture.astype(np.uint8, copy=False),
                captured_at=captured_at,
                deadline_s=self._deadline_s,
                origin=f"{self._name}#{index}",
            )
            index += 1

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
        self._capture.release()


def _open(camera: int | str) -> Capture:
    if isinstance(camera, int) or camera.startswith("/dev/"):
        return cv2.VideoCapture(camera, cv2.CAP_V4L2, [cv2.CAP_PROP_BUFFERSIZE, 1])
    timeouts = [
        cv2.CAP_PROP_OPEN_TIMEOUT_MSEC,
        _TIMEOUT_MS,
        cv2.CAP_PROP_READ_TIMEOUT_MSEC,
        _TIMEOUT_MS,
    ]
    return cv2.VideoCapture(camera, cv2.CAP_FFMPEG, timeouts)


def _without_password(address: str) -> str:
    """The address as it may be logged: without the user and password some cameras want in it."""
    scheme, separator, rest = address.partition("://")
    host = rest.rpartition("@")[2] if "@" in rest.partition("/")[0] else rest
    return f"{scheme}{separator}{host}"
