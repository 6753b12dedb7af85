"""Readings of sensors, line by line: from standard input, a file or pipe, or a serial port."""

from collections.abc import Iterator

import numpy as np

from headtail_device.source.errors import EmptySourceError
from headtail_device.source.frame import Captured, Frame, Unreadable
from headtail_device.source.readings import (
    MAX_LINE_BYTES,
    BadReadingError,
    looks_like_titles,
    parse_reading,
)
from headtail_device.source.stream import ByteStream, StreamSource
from headtail_device.source.windows import Windows
from headtail_fabric.clock import Clock
from headtail_models.bundle.manifest import Signal


class LineSource(StreamSource):
    """One frame a window of readings. A line that is none is yielded as Unreadable, and the window
    goes on with the next; the titles of a table are passed over."""

    def __init__(
        self,
        stream: ByteStream,
        *,
        name: str,
        signal: Signal,
        deadline_s: float,
        clock: Clock,
        live: bool,
    ) -> None:
        super().__init__(stream, name=name, deadline_s=deadline_s, clock=clock, live=live)
        self._signal = signal

    @property
    def rate_hz(self) -> float | None:
        return self._signal.rate_hz / self._signal.hop

    def __iter__(self) -> Iterator[Captured]:
        windows = Windows(length=self._signal.window, hop=self._signal.hop)
        index = 0
        for number, line in enumerate(self._lines(), start=1):
            if number == 1 and looks_like_titles(line):
                continue
            origin = f"{self._name}:{number}"
            try:
                reading = parse_reading(line, channels=self._signal.channels)
            except BadReadingError as error:
                yield Unreadable(index=index, origin=origin, reason=str(error))
                index += 1
                continue
            if reading is None:
                continue
            for window in windows.add(reading[None]):
                yield Frame(
                    index=index,
                    data=window.astype(np.float32, copy=False),
                    captured_at=self._clock.now(),
                    deadline_s=self._deadline_s,
                    origin=origin,
                )
                index += 1
        if index == 0 and not self._closing.is_set():
            raise EmptySourceError(
                f"{self._name} ended before a window of {self._signal.window} readings was full"
            )

    def _lines(self) -> Iterator[bytes]:
        """Without their ends; one that never ends is cut where it is too long for a reading."""
        rest = b""
        for piece in self._pieces():
            *whole, rest = (rest + piece).split(b"\n")
            yield from whole
            if len(rest) > 2 * MAX_LINE_BYTES:
                yield rest
                rest = b""
        if rest:
            yield rest
