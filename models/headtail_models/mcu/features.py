"""What a board sends: levels of 8, 4 or 2 bits, packed, and the values that they stand for."""

import numpy as np

from headtail_models.mcu.errors import FeaturesError
from headtail_models.mcu.layers import Floats
from headtail_models.mcu.program import Output
from headtail_models.mcu.ranges import Levels


def decode_features(output: Output, payload: bytes) -> Floats:
    """The tensor of one sample as a tail takes it, channels first: 1 x C x H x W.

    Raises FeaturesError.
    """
    if len(payload) != output.size:
        raise FeaturesError(
            f"{len(payload)} bytes, a {output.shape} of {output.quantiser.bits} bits has "
            f"{output.size}"
        )
    packed = np.frombuffer(payload, dtype=np.uint8)
    levels = unpack(packed, bits=output.quantiser.bits, size=output.shape.size)
    reals = output.quantiser.reals(levels.reshape(1, *output.shape))
    return np.ascontiguousarray(reals.transpose(0, 3, 1, 2))


def pack(levels: Levels, *, bits: int) -> Levels:
    """Levels of `bits` bits into bytes, the first in the lowest bits, the rest of a byte zero."""
    each = 8 // bits
    flat = np.zeros(-(-levels.size // each) * each, dtype=np.uint8)
    flat[: levels.size] = levels.reshape(-1)
    shifts = np.arange(each, dtype=np.uint8) * bits
    packed: Levels = np.bitwise_or.reduce(flat.reshape(-1, each) << shifts, axis=1)
    return packed


def unpack(packed: Levels, *, bits: int, size: int) -> Levels:
    """The first `size` levels. The inverse of `pack`."""
    shifts = np.arange(8 // bits, dtype=np.uint8) * bits
    levels: Levels = (packed.reshape(-1, 1) >> shifts & ((1 << bits) - 1)).astype(np.uint8)
    return levels.reshape(-1)[:size]
