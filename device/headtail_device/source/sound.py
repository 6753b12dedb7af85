"""Windows of a sound file."""

from collections.abc import Callable, Iterator
from math import ceil
from pathlib import Path

from headtail_device.source.closing import ClosingSource
from headtail_device.source.frame import Captured, Frame
from headtail_fabric.clock import Clock
from headtail_models.audio.log_mel import LogMel
from headtail_models.audio.resample import resample
from headtail_models.audio.wav import read_wav


class SoundFileSource(ClosingSource):
    """A WAV file, channels averaged, at the rate that the network hears at, in overlapping windows:
    `front.patch_samples` long, `front.hop_samples` apart. The last one has the end, and may be
    shorter.

    As fast as it is read, or with `realtime` each window when it would have been heard to its end.
    """

    def __init__(
        self,
        path: Path,
        *,
        front: LogMel,
        deadline_s: float,
        clock: Clock,
        realtime: bool = False,
        wait: Callable[[float], object] | None = None,
    ) -> None:
        """Raises NotWavError, TruncatedSoundError, EmptySoundError."""
        super().__init__(deadline_s=deadline_s, clock=clock, wait=wait)
        sound = read_wav(path)
        self._path = path
        self._front = front
        self._samples = resample(sound.samples, sound.rate, front.rate)
        self._realtime = realtime

    @property
    def name(self) -> str:
        return self._path.name

    @property
    def live(self) -> bool:
        return self._realtime

    @property
    def rate_hz(self) -> float | None:
        return self._front.rate / self._front.hop_samples

    @property
    def frame_count(self) -> int:
        rest = self._samples.size - self._front.patch_samples
        return 1 + max(0, ceil(rest / self._front.hop_samples))

    def __iter__(self) -> Iterator[Captured]:
        front, began_at = self._front, self._clock.now()
        for index in range(self.frame_count):
            start = index * front.hop_samples
            window = self._samples[start : start + front.patch_samples]
            captured_at = self._captured_at(
                began_at + (start + window.size) / front.rate, realtime=self._realtime
            )
            if self._closing.is_set():
                return
            yield Frame(
                index=index,
                data=window,
                captured_at=captured_at,
                deadline_s=self._deadline_s,
                origin=f"{self.name}@{start / front.rate:.2f}s",
            )
