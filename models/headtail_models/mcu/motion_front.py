"""The front end of a board with an inertial sensor: readings as levels of the head.

level = clip((reading * factor + bias) >> drop, 0, 255)        by channel, in 32 bits
"""

import struct
import zlib
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headtail_models.bundle.preprocess import Signal
from headtail_models.mcu.errors import BlobError, FrontEndError
from headtail_models.mcu.fixed_point import Integers
from headtail_models.mcu.program import golden_input
from headtail_models.mcu.ranges import Levels, Quantiser

KIND: Final = 2
MAX_CHANNELS: Final = 255
_HEADER: Final = struct.Struct("<BBHH2xII")
_CHANNEL: Final = np.dtype([("factor", "<i2"), ("drop", "<u2"), ("bias", "<i4")])
_FACTOR_BITS: Final = 14
_MOST_DROP: Final = 28
_BOUND: Final = 2**30

Readings = NDArray[np.int16]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MotionFront:
    """`window` readings of as many channels as there are rows in the table."""

    window: int
    rate_hz: int
    factor: Integers
    drop: Integers
    bias: Integers

    def patch_of(self, readings: Readings) -> Levels:
        """What the head reads of (window, channels): (window, channels, 1)."""
        return self.levels(readings)[..., np.newaxis]

    def levels(self, readings: Readings) -> Levels:
        """Of readings (n, channels), as many levels."""
        found = (readings.astype(np.int64) * self.factor + self.bias) >> self.drop
        levels: Levels = np.clip(found, 0, 255).astype(np.uint8)
        return levels


def make_front(way: Signal, quantiser: Quantiser, *, seed: int = 1) -> bytes:
    """The section of a blob whose head reads scaled readings by `quantiser`. Raises FrontEndError.

    header     16 B: kind, channels, window, readings a second, seed and CRC-32 of the golden levels
    channels   8 B each: factor i16, drop u16, bias i32
    """
    if way.channels > MAX_CHANNELS:
        over = way.channels - MAX_CHANNELS
        raise FrontEndError(f"{way.channels} channels, {over} more than {MAX_CHANNELS}")
    table = np.zeros(way.channels, dtype=_CHANNEL)
    for number, (offset, scale) in enumerate(zip(way.offset, way.scale, strict=True)):
        step = scale * quantiser.scale
        drop = min(_FACTOR_BITS - int(np.frexp(1 / abs(step))[1]), _MOST_DROP)
        bias = round((quantiser.zero - offset / step) * 2.0**drop) + (1 << max(drop, 1) >> 1)
        if drop < 1 or abs(bias) >= _BOUND:
            raise FrontEndError(
                f"channel {number}: a level for {abs(step):.3g} of its units around {offset:.3g}"
            )
        table[number] = round(2.0**drop / step), drop, bias
    rate = round(way.rate_hz)

    def section(crc: int) -> bytes:
        return _HEADER.pack(KIND, way.channels, way.window, rate, seed, crc) + table.tobytes()

    front = read_front(section(0))
    noise = np.frombuffer(golden_input(seed, 4 * way.channels), dtype="<i2")
    return section(zlib.crc32(front.levels(noise.reshape(2, -1)).tobytes()))


def read_front(section: bytes) -> MotionFront:
    """Raises BlobError."""
    if len(section) < _HEADER.size or section[0] != KIND:
        raise BlobError("no front end for motion")
    _, channels, window, rate, _, _ = _HEADER.unpack_from(section)
    if len(section) < _HEADER.size + channels * _CHANNEL.itemsize:
        raise BlobError(f"a front end of {len(section)} bytes for {channels} channels")
    table = np.frombuffer(section, _CHANNEL, channels, _HEADER.size)
    factor, drop, bias = (table[name].astype(np.int64) for name in ("factor", "drop", "bias"))
    return MotionFront(window=window, rate_hz=rate, factor=factor, drop=drop, bias=bias)
