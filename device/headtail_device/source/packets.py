"""Which frames of a video the decoder lost, told by the packets that the container holds.

FFmpeg skips a packet that it can't decode without a word. The container's own list of packets,
read beside the decoder without decoding, has a presentation time for each frame; a time that the
decoder passes over is a lost frame. Packets lie in decoding order, so they are sorted by time as
they are read; a codec reorders by at most 16 frames (ITU-T Rec. H.264, A.3.1, MaxDpbFrames), so
that many are read ahead.
"""

import heapq
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Final

import cv2

_REORDERED: Final = 16
_BLIND_RETRIES: Final = 8


class PacketTimes:
    """Compares the times of a file's packets with those of the frames that were decoded.

    When a decoded frame's time is among no packet nearby (containers without usable times), the
    comparison is given up: `usable` turns False and nothing is called lost any more.
    """

    def __init__(self, times_ms: Iterator[float]) -> None:
        self._unread = times_ms
        self._pending: list[float] = []
        self.usable = True

    def __repr__(self) -> str:
        return f"<PacketTimes pending={len(self._pending)} usable={self.usable}>"

    def lost_before(self, decoded_ms: float) -> list[float]:
        """Times of the frames that come before the one just decoded and were never decoded."""
        if not self.usable:
            return []
        while len(self._pending) <= _REORDERED and self._read():
            pass
        if decoded_ms not in self._pending:
            self._give_up()
            return []
        lost = []
        while (first := heapq.heappop(self._pending)) != decoded_ms:
            lost.append(first)
        return lost

    def may_continue(self, failures: int) -> bool:
        """Whether the decoder may still give a frame after `failures` failed reads in a row.

        Each failed read uses up one packet, so it has reached the end once there are fewer
        packets without a frame than failures.
        """
        if not self.usable:
            return failures <= _BLIND_RETRIES
        while len(self._pending) < failures and self._read():
            pass
        return len(self._pending) >= failures

    def rest(self) -> Iterator[float]:
        """Times of the frames after the last one decoded; ends the comparison."""
        while self.usable and (self._pending or self._read()):
            yield heapq.heappop(self._pending)

    def _read(self) -> bool:
        time_ms = next(self._unread, None)
        if time_ms is None:
            return False
        heapq.heappush(self._pending, time_ms)
        return True

    def _give_up(self) -> None:
        self.usable = False
        self._pending.clear()


def packet_times(path: Path) -> Generator[float]:
    """Presentation times in milliseconds of the video packets of a file, in the file's order."""
    packets = cv2.VideoCapture(str(path), cv2.CAP_FFMPEG, [cv2.CAP_PROP_FORMAT, -1])
    try:
        while packets.grab():
            yield packets.get(cv2.CAP_PROP_POS_MSEC)
    finally:
        packets.release()
