"""Sound as it comes: from a microphone, a pipe, or a broker."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from headtail_device.source.frame import Captured, Frame
from headtail_device.source.stream import ByteStream, StreamSource
from headtail_device.source.windows import Windows
from headtail_fabric.clock import Clock
from headtail_models.audio.log_mel import LogMel

_FULL_SCALE: Final = np.float32(32_768)


class SoundStreamSource(StreamSource):
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
        super().__init__(stream, name=name, deadline_s=deadline_s, clock=clock, live=live)
        self._front = front

    @property
    def rate_hz(self) -> float | None:
        return self._front.rate / self._front.hop_samples

    def __iter__(self) -> Iterator[Captured]:
        windows = Windows(length=self._front.patch_samples, hop=self._front.hop_samples)
        index, rest = 0, b""
        for piece in self._pieces():
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
