"""Sound as it comes: from a microphone, a pipe, or a broker."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from headtail_device.source.closing import ClosingSource
from headtail_device.source.frame import Captured, Frame
from headtail_device.source.stream import ByteStream, pieces
from headtail_device.source.windows import Windows
from headtail_fabric.clock import Clock
from headtail_models.audio.log_mel import LogMel

_FULL_SCALE: Final = np.float32(32_768)


class SoundStreamSource(ClosingSource):
    """Mono samples of 16 bits, little endian, at the rate that the network hears at, in overlapping
    windows: `front.patch_samples` long, `front.hop_samples` apart."""

    def __init__(
        self,
        stream: ByteStream,
        *,
        name: str,
        front: LogMel,
        deadline_s: float,
        clock: Clock,
        live: bool,
    ) -> None:
        super().__init__(deadline_s=deadline_s, clock=clock)
        self._stream = stream
        self._name = name
        self._front = front
        self._live = live

    @property
    def name(self) -> str:
        return self._name

    @property
    def live(self) -> bool:
        return self._live

    @property
    def rate_hz(self) -> float | None:
        return self._front.rate / self._front.hop_samples

    def __iter__(self) -> Iterator[Captured]:
        windows = Windows(length=self._front.patch_samples, hop=self._front.hop_samples)
        index, rest = 0, b""
        for piece in pieces(self._stream, name=self._name, closed=self._closing.is_set):
            joined = rest + piece
            even = len(joined) & ~1
            samples, rest = np.frombuffer(joined[:even], dtype="<i2"), joined[even:]
            for window in windows.add(samples):
                at_s = index * self._front.hop_samples / self._front.rate
                yield Frame(
                    index=index,
                    data=window.astype(np.float32) / _FULL_SCALE,
                    captured_at=self._clock.now(),
                    deadline_s=self._deadline_s,
                    origin=f"{self._name}@{at_s:.2f}s",
                )
                index += 1

    def _release(self) -> None:
        self._stream.close()
