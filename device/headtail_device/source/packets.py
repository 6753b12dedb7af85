"""Which frames of a video the decoder lost, told by the packets that the container holds.

FFmpeg skips a packet that it can't decode without a word. The container's own list of packets,
read beside the decoder without decoding, has a presentation time for each frame; a time that the
decoder passes over is a lost frame. Packets lie in decoding order, so they are sorted by time as
they are read; a codec reorders by at most 16 frames (ITU-T Rec. H.264, A.3.1, MaxDpbFrames), so
that many are read ahead.
"""

import heapq
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import Final

import cv2

_REORDERED: Final = 16
_BLIND_RETRIES: Final = 8
_LONGEST_GAP: Final = 1000
_INSTANT_MS: Final = 1e-6


class PacketTimes:
    """Compares the times of a file's packets with those of the frames that were decoded.

    When a decoded frame's time is among no packet nearby (containers without usable times), the
    comparison is given up: `usable` turns False and nothing is called lost any more.
    """

    def __init__(self, times_ms: Iterator[float]) -> None:
        self._unread = times_ms
        self._pending: list[float] = []
        self._decoded_ms = float("-inf")
        self.usable = True

    def __repr__(self) -> str:
        return f"<PacketTimes pending={len(self._pending)} usable={self.usable}>"

    def is_past(self, decoded_ms: float) -> bool:
        """Whether frames after the one just decoded came before it, so that it was called lost
        already: a decoder that stumbles over damage may give a frame long after its turn."""
        return self.usable and decoded_ms < self._decoded_ms

    def lost_before(self, decoded_ms: float) -> list[float]:
        """Times of the frames that come before the one just decoded and were never decoded."""
        if not self.usable:
            return []
        later = sum(time_ms > decoded_ms for time_ms in self._pending)
        for _ in range(_LONGEST_GAP + _REORDERED):
            if later == _REORDERED or (time_ms := self._read()) is None:
                break
            later += time_ms > decoded_ms
        if decoded_ms not in self._pending:
            self._give_up()
            return []
        self._decoded_ms = decoded_ms
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
        while len(self._pending) < failures and self._read() is not None:
            pass
        return len(self._pending) >= failures

    def rest(self) -> Iterator[float]:
        """Times of the frames after the last one decoded; ends the comparison."""
        while self.usable and (self._pending or self._read() is not None):
            yield heapq.heappop(self._pending)

    def _read(self) -> float | None:
        time_ms = next(self._unread, None)
        if time_ms is not None:
            heapq.heappush(self._pending, time_ms)
        return time_ms

    def _give_up(self) -> None:
        self.usable = False
        self._pending.clear()


def packet_times(path: Path) -> Generator[float]:
    """Presentation times in milliseconds of the video packets of a file, in the file's order."""
    packets = cv2.VideoCapture(str(path), cv2.CAP_FFMPEG, [cv2.CAP_PROP_FORMAT, -1])
    announced = int(packets.get(cv2.CAP_PROP_FRAME_COUNT))
    try:
        yield from bridged(_grabs(packets), announced=announced)
    finally:
        packets.release()


def bridged(grabs: Iterable[float | None], *, announced: int) -> Iterator[float]:
    """The times of a file's packets, None being one that was too damaged to be told from the end.

    Damaged ones between others get times just after the latest one before them. The end is where
    none follows within `announced` packets, or within a gap of `_LONGEST_GAP`.
    """
    latest_ms, gap = 0.0, 0
    for tried, time_ms in enumerate(grabs, start=1):
        if time_ms is None:
            gap += 1
            if tried > announced or gap > _LONGEST_GAP:
                return
            continue
        yield from (latest_ms + step * _INSTANT_MS for step in range(1, gap + 1))
        latest_ms, gap = max(latest_ms, time_ms), 0
        yield time_ms


def _grabs(packets: cv2.VideoCapture) -> Iterator[float | None]:
    """For ever: the time of the next packet, or None when there was none or a damaged one."""
    while True:
        yield packets.get(cv2.CAP_PROP_POS_MSEC) if packets.grab() else None
