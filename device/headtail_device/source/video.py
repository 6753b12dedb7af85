"""Frames of a video file."""

import logging
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import cv2
import numpy as np

from headtail_device.source.closing import ClosingSource
from headtail_device.source.errors import EmptySourceError, UnreadableVideoError
from headtail_device.source.frame import Captured, Frame, Unreadable
from headtail_device.source.packets import PacketTimes, packet_times
from headtail_device.source.quiet import silence_opencv
from headtail_fabric.clock import Clock
from headtail_fabric.logs import fields
from headtail_models.task import Picture

log = logging.getLogger(__name__)

_ESTIMATE_ERROR: Final = 0.02
"""Some containers announce a number of frames that was computed from the duration."""


class VideoSource(ClosingSource):
    """A file that OpenCV's FFmpeg can decode.

    As fast as it is read, or with `realtime` each frame when its time has come by the file's own
    clock. A frame that can't be decoded is yielded as Unreadable in its place; one that FFmpeg
    could patch up is a frame like any other.
    """

    def __init__(
        self,
        path: Path,
        *,
        deadline_s: float,
        clock: Clock,
        realtime: bool = False,
        wait: Callable[[float], object] | None = None,
    ) -> None:
        """Raises UnreadableVideoError."""
        super().__init__(deadline_s=deadline_s, clock=clock, wait=wait)
        silence_opencv()
        self._path = path
        self._realtime = realtime
        self._capture = cv2.VideoCapture(str(path), cv2.CAP_FFMPEG)
        if not self._capture.isOpened():
            raise UnreadableVideoError(f"{path} can't be decoded as a video", path=str(path))
        self._rate_hz = float(self._capture.get(cv2.CAP_PROP_FPS))
        self._frame_count = int(self._capture.get(cv2.CAP_PROP_FRAME_COUNT))

    @property
    def name(self) -> str:
        return self._path.name

    @property
    def live(self) -> bool:
        return self._realtime

    @property
    def rate_hz(self) -> float | None:
        return self._rate_hz if 0 < self._rate_hz < 1000 else None

    @property
    def frame_count(self) -> int | None:
        return self._frame_count if self._frame_count > 0 else None

    def __iter__(self) -> Iterator[Captured]:
        began_at = self._clock.now()
        index = decoded = 0
        for index, (at_ms, picture) in enumerate(self._pictures(), start=1):
            captured_at = self._captured_at(began_at + at_ms / 1000, realtime=self._realtime)
            if self._closing.is_set():
                return
            decoded += picture is not None
            yield self._item(index - 1, picture, captured_at)
        if self._frame_count > index + _ESTIMATE_ERROR * self._frame_count:
            log.warning(
                "the video ends before its announced length",
                extra=fields(source=self.name, announced=self._frame_count, read=index),
            )
        if not decoded:
            kind = UnreadableVideoError if index else EmptySourceError
            raise kind(f"{self._path}: none of {index} frames can be read", path=str(self._path))

    def _pictures(self) -> Iterator[tuple[float, Picture | None]]:
        """Presentation time in milliseconds and picture of each frame; None for a lost one."""
        with closing(packet_times(self._path)) as times_ms:
            packets = PacketTimes(times_ms)
            failures = 0
            while packets.may_continue(failures) and not self._closing.is_set():
                if not self._capture.grab():
                    failures += 1
                    continue
                failures = 0
                at_ms = self._capture.get(cv2.CAP_PROP_POS_MSEC)
                if packets.is_past(at_ms):
                    continue
                yield from ((lost_ms, None) for lost_ms in packets.lost_before(at_ms))
                done, picture = self._capture.retrieve()
                yield at_ms, picture.astype(np.uint8, copy=False) if done else None
            yield from ((lost_ms, None) for lost_ms in packets.rest())

    def _item(self, index: int, picture: Picture | None, captured_at: float) -> Captured:
        origin = f"{self._path.name}#{index}"
        if picture is None:
            return Unreadable(index=index, origin=origin, reason="the frame can't be decoded")
        return Frame(
            index=index,
            data=picture,
            captured_at=captured_at,
            deadline_s=self._deadline_s,
            origin=origin,
        )

    def _release(self) -> None:
        self._capture.release()
