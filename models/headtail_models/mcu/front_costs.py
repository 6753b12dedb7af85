"""What a front end costs a board: the RAM that it works in, the sensor's buffers, instructions.

Instructions are those of an emulated Cortex-M3 (`firmware/bench/count_front.py`): log-mel spectra
in viper, which is what all boards run them in; readings of a sensor in Python.
"""

from dataclasses import dataclass
from typing import Final

from headtail_models.mcu.fronts import Front
from headtail_models.mcu.log_mel_front import LogMelFront
from headtail_models.mcu.motion_front import MotionFront

_SAMPLE: Final = 150
_BUTTERFLY: Final = 168
_BIN: Final = 640
_WEIGHT: Final = 38
_BAND: Final = 250
_SPECTRUM: Final = 23_000
_READING: Final = 11_300
_CHANNEL: Final = 4_300
_SOUND_BUFFERED_S: Final = 0.75
"""What `firmware/boards/apps/microphone.py` has: half a second in the driver, a quarter behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontCost:
    """`instructions` of a whole patch, as after a gap; a node that listens without one computes
    what is new. `ram_bytes`: the last levels and what they are computed in; `sensor_bytes`: what
    lies between the sensor and them."""

    name: str
    shape: str
    instructions: int
    ram_bytes: int
    sensor_bytes: int


def front_cost(front: Front) -> FrontCost:
    """Of a front end as `fronts.read_front` gives it."""
    return _of_sound(front) if isinstance(front, LogMelFront) else _of_motion(front)


def _of_sound(front: LogMelFront) -> FrontCost:
    half, bands = front.half, len(front.bands)
    stages = half.bit_length() - 1
    spectrum = (
        _SPECTRUM
        + _SAMPLE * front.window.size
        + _BUTTERFLY * half // 2 * stages
        + _BIN * half
        + _WEIGHT * front.weights.size
        + _BAND * bands
    )
    return FrontCost(
        name="log-mel spectra",
        shape=f"{front.patch}x{bands}x1",
        instructions=front.patch * spectrum,
        ram_bytes=front.patch * bands + 4 * half + 4 + 2 * front.window.size,
        sensor_bytes=round(2 * front.rate * _SOUND_BUFFERED_S),
    )


def _of_motion(front: MotionFront) -> FrontCost:
    channels = len(front.factor)
    return FrontCost(
        name="scaled readings",
        shape=f"{front.window}x{channels}x1",
        instructions=front.window * (_READING + _CHANNEL * channels),
        ram_bytes=front.window * channels,
        sensor_bytes=0,
    )
