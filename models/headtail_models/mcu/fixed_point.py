"""Real factors as integers: one 15-bit multiplier and two shifts, all that the kernels know.

    y = ((clip((acc + half) >> drop, +-32767) * multiplier + 2**(shift-1)) >> shift) + zero

One 32-bit multiplication an output, against the two halves that gemmlowp's doubling high multiply
(Jacob et al., CVPR 2018, 2.2) costs without 64-bit products. `drop` keeps at least 7 bits below an
output's last one, so at most about one value in a hundred differs from exact rounding, by one.
`half` is folded into the bias by whoever uses it.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headtail_models.mcu.errors import OutOfRangeError

Integers = NDArray[np.int64]

CLIP: Final = 2**15 - 1
_MAX_SHIFT: Final = 30
_SPAN: Final = 256
"""Output steps after which a value is saturated, whatever the zero point is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Factor:
    """acc * factor, for an accumulator of at most `drop` bits too many."""

    drop: int
    multiplier: int
    shift: int

    @property
    def half(self) -> int:
        """What has to be added to the accumulator for `drop` to round."""
        return 1 << (self.drop - 1) if self.drop else 0


def factor_of(real: float, *, bound: int) -> Factor:
    """For accumulators up to `bound` in size. Raises OutOfRangeError."""
    if not (math.isfinite(real) and real > 0):
        raise OutOfRangeError(f"scale factor {real}")
    enough = min(bound, math.ceil(_SPAN / real))
    drop = max(0, enough.bit_length() - 15)
    multiplier, shift = _mantissa(real * 2.0**drop, bits=15)
    return Factor(drop=drop, multiplier=multiplier, shift=shift)


def shared_factors(reals: tuple[float, ...], *, bound: int) -> tuple[tuple[int, ...], int]:
    """Multipliers with one shift for a sum of products of at most `bound` each.

    As precise as 31 bits allow. Raises OutOfRangeError.
    """
    largest = max(reals)
    if not (math.isfinite(largest) and min(reals) >= 0 and largest > 0):
        raise OutOfRangeError(f"scale factors {reals}")
    bits = 29 - (bound * len(reals)).bit_length()
    if bits < 8:
        most = (2**21 - 1) // (_SPAN - 1)
        values = bound // (_SPAN - 1)
        raise OutOfRangeError(
            f"an average of {values:,} values, {values - most:,} more than {most:,}"
        )
    _, shift = _mantissa(largest, bits=min(bits, 20))
    return tuple(round(real * 2.0**shift) for real in reals), shift


def scaled(acc: Integers, factor_columns: Integers) -> Integers:
    """`acc` (.., channels) times the factors (channels, 3: drop, multiplier, shift)."""
    drop, multiplier, shift = factor_columns.T
    clipped = np.clip(acc >> drop, -CLIP, CLIP)
    result: Integers = (clipped * multiplier + (1 << (shift - 1))) >> shift
    return result


def _mantissa(real: float, *, bits: int) -> tuple[int, int]:
    """multiplier * 2**-shift = real, with a multiplier of `bits` bits where the shift allows."""
    exponent = math.frexp(real)[1]
    shift = bits - exponent
    multiplier = round(real * 2.0 ** min(shift, _MAX_SHIFT))
    if multiplier == 1 << bits:
        multiplier, shift = multiplier >> 1, shift - 1
    if shift < 1:
        raise OutOfRangeError(f"scale factor {real}: weights far larger than what they make")
    return multiplier, min(shift, _MAX_SHIFT)
