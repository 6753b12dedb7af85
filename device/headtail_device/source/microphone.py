"""A microphone as a stream of samples."""

import queue
from collections.abc import Callable
from typing import Any, Final, Protocol

from headtail_device.source.errors import NoSuchSourceError
from headtail_device.source.stream import LOOK_UP_S
from headtail_fabric.errors import ConfigError

_BLOCK_S: Final = 0.02
_KEPT_BLOCKS: Final = 500
"""Ten seconds: what a stalled reader finds when it comes back."""


class Recording(Protocol):
    """What is used of `sounddevice.RawInputStream`."""

    def start(self) -> None: ...

    def close(self) -> None: ...


OpenRecording = Callable[[str | int | None, int, int, Callable[..., None]], Recording]
"""From device, rate, samples a block and callback to a stream that is not started yet."""


class MicrophoneStream:
    """The default input, or the one whose name holds `device`, or of that number; mono, 16 bits.

    Blocks that nobody takes for ten seconds are lost, the oldest first. Needs the extra
    `microphone` and the PortAudio library. Raises ConfigError without them, NoSuchSourceError.
    """

    def __init__(
        self, device: str, *, rate: int, open_recording: OpenRecording | None = None
    ) -> None:
        self._blocks: queue.Queue[bytes] = queue.Queue(_KEPT_BLOCKS)
        self.lost = 0
        chosen = int(device) if device.isascii() and device.isdigit() else device or None
        start = open_recording or _sounddevice
        try:
            self._recording = start(chosen, rate, int(rate * _BLOCK_S), self._take)
            self._recording.start()
        except (ValueError, RuntimeError) as error:  # PortAudioError is a RuntimeError too
            raise NoSuchSourceError(f"microphone {device or 'default'}: {error}") from None

    def read(self) -> bytes | None:
        try:
            return self._blocks.get(timeout=LOOK_UP_S)
        except queue.Empty:
            return None

    def close(self) -> None:
        self._recording.close()

    def _take(self, data: Any, frames: int, time: Any, status: Any) -> None:
        """Called by PortAudio's thread, which must not wait."""
        block = bytes(data)
        while True:
            try:
                self._blocks.put_nowait(block)
            except queue.Full:
                self._drop_oldest()
            else:
                return

    def _drop_oldest(self) -> None:
        try:
            self._blocks.get_nowait()
        except queue.Empty:
            return
        self.lost += 1


def _sounddevice(
    device: str | int | None, rate: int, block: int, callback: Callable[..., None]
) -> Recording:
    try:
        import sounddevice
    except ImportError:
        raise ConfigError(
            "a microphone needs sounddevice: pip install 'headtail[microphone]'"
        ) from None
    except OSError as error:
        raise ConfigError(
            f"a microphone needs the PortAudio library (Debian: libportaudio2): {error}"
        ) from None
    recording: Recording = sounddevice.RawInputStream(
        device=device,
        samplerate=rate,
        blocksize=block,
        channels=1,
        dtype="int16",
        callback=callback,
    )
    return recording
