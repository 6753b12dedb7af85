"""Bit strings: arrays of 0 and 1 (uint8), most significant bit of each byte first."""

from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[np.uint8]
Ints = NDArray[np.int64]
Int32s = NDArray[np.int32]
Number = TypeVar("Number", bound=np.signedinteger[Any])

WINDOW: Final = 16


def fields(values: NDArray[Number], widths: NDArray[Number]) -> Bits:
    """The low `widths[i]` bits of each `values[i]`, one after the other."""
    some = np.flatnonzero(widths)  # many move no bit at all
    values, widths = values[some], widths[some]
    ends = np.cumsum(widths, dtype=np.int32)
    shifts = np.repeat(ends - 1, widths)
    shifts -= np.arange(shifts.size, dtype=np.int32)
    return (np.repeat(values, widths) >> shifts & 1).astype(np.uint8)


def windows(bits: Bits, slack: int) -> Ints:
    """The 16 bits that begin at each place of `bits` and of `slack` zeros behind it."""
    data = np.zeros(windows_size(bits.size, slack) // 8 + 2, dtype=np.int64)
    packed = np.packbits(bits)
    data[: packed.size] = packed
    triples = data[:-2] << 16 | data[1:-1] << 8 | data[2:]
    shifts = np.arange(8, 0, -1)
    return (triples[:, np.newaxis] >> shifts & 0xFFFF).reshape(-1)


def windows_size(bits: int, slack: int) -> int:
    """How many `windows` makes of so many bits."""
    return 8 * ((bits + slack) // 8 + 2)


def split(bits: Bits, width: int) -> Ints:
    """The inverse of `fields` for numbers that all have `width` bits."""
    weights = 1 << np.arange(width - 1, -1, -1)
    numbers: Ints = bits.reshape(-1, width) @ weights
    return numbers


def join(values: NDArray[Number], width: int) -> Bits:
    """The low `width` bits of each, one after the other."""
    return fields(values, np.full_like(values, width))
