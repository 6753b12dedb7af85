"""Frames of a camera or a network stream, as they come."""

import logging
from collections.abc import Callable, Iterator
from typing import Final, Protocol

import cv2
import numpy as np

from headtail_device.source.closing import ClosingSource
from headtail_device.source.errors import CameraError
from headtail_device.source.frame import Captured, Frame
from headtail_device.source.quiet import silence_opencv
from headtail_fabric.clock import Clock
from headtail_fabric.codec.base import Array
from headtail_fabric.logs import fields
from headtail_models.task import Picture

log = logging.getLogger(__name__)

_TIMEOUT_MS: Final = 10_000
_FAILURES_ALLOWED: Final = 3
_FIRST_WAIT_S: Final = 0.5
_LONGEST_WAIT_S: Final = 30.0


class Capture(Protocol):
    """What is used of `cv2.VideoCapture`."""

    def isOpened(self) -> bool: ...  # noqa: N802 (OpenCV's name)

    def read(self) -> tuple[bool, Array | None]: ...

    def get(self, prop: int, /) -> float: ...

    def release(self) -> None: ...


class CameraSource(ClosingSource):
    """A camera by number or device file, or a stream by address.

    Nothing is buffered here: whoever iterates must keep up or drop frames (`live`). After a few
    failed reads in a row the camera counts as gone: it is opened again and again, ever more rarely,
    for `patience_s`, which every picture renews; then CameraError is raised.
    """

    def __init__(
        self,
        camera: int | str,
        *,
        deadline_s: float,
        clock: Clock,
        patience_s: float = 0.0,
        open_capture: Callable[[int | str], Capture] | None = None,
        wait: Callable[[float], object] | None = None,
    ) -> None:
        """Raises CameraError when the camera can't be opened now: a wrong name shall not be tried
        for hours."""
        super().__init__(deadline_s=deadline_s, clock=clock, wait=wait)
        silence_opencv()
        self._camera = camera
        self._name = f"camera {camera}" if isinstance(camera, int) else without_password(camera)
        self._patience_s = patience_s
        self._open = open_capture or _open
        self._capture = self._open(camera)
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

    def __iter__(self) -> Iterator[Captured]:
        index = 0
        while (picture := self._next()) is not None:
            captured_at = self._clock.now()
            yield Frame(
                index=index,
                data=picture,
                captured_at=captured_at,
                deadline_s=self._deadline_s,
                origin=f"{self._name}#{index}",
            )
            index += 1

    def _next(self) -> Picture | None:
        """The next picture; None when closed. Raises CameraError when patience is at its end."""
        gone_at = self._clock.now()
        wait_s, told = _FIRST_WAIT_S, False
        while not self._closing.is_set():
            for _ in range(1 + _FAILURES_ALLOWED):
                done, picture = self._capture.read()
                if self._closing.is_set():
                    return None
                if done and picture is not None:
                    if told:
                        log.info("the camera is back", extra=fields(camera=self._name))
                    return picture.astype(np.uint8, copy=False)
            if self._clock.now() - gone_at >= self._patience_s:
                raise CameraError(f"{self._name} gives no more pictures", camera=self._name)
            if not told:
                log.warning("the camera is gone; trying again", extra=fields(camera=self._name))
                told = True
            self._capture.release()
            self._wait(wait_s)
            wait_s = min(2 * wait_s, _LONGEST_WAIT_S)
            if not self._closing.is_set():
                self._capture = self._open(self._camera)
        return None

    def _release(self) -> None:
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


def without_password(address: str) -> str:
    """The address as it may be logged: without the user and password that some want in it."""
    scheme, separator, rest = address.partition("://")
    host = rest.rpartition("@")[2] if "@" in rest.partition("/")[0] else rest
    return f"{scheme}{separator}{host}"
