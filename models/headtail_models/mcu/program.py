"""What a board runs, as values: a table of operations, their parameters, what comes out.

Levels are stored with an offset of 128, so that a byte load needs no sign; weights too. Each op
carries the CRC-32 of what it leaves for the golden input, which `golden_input` makes from a seed:
a few bytes check every kernel on every layer.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np

from headtail_models.mcu.layers import Shape
from headtail_models.mcu.ranges import Quantiser

LANES: Final = 8
"""Inner products go eight values at a time."""

CHANNEL: Final = np.dtype([("bias", "<i4"), ("multiplier", "<u2"), ("drop", "u1"), ("shift", "u1")])
"""What a convolution has of each channel, before the weights of them all."""
EXPONENTIALS: Final = 256
_GOLDEN_MODULUS: Final = 65537


class OpKind(IntEnum):
    """What a row of the table does."""

    CONVOLUTION = 1
    DEPTHWISE = 2
    ADDITION = 3
    MAX_POOL = 4
    AVERAGE_POOL = 5
    PACK = 6
    """Two 4-bit or four 2-bit levels a byte, the first lowest."""


class Role(IntEnum):
    """What an output is for."""

    FEATURES = 0
    LOGITS = 1


class Criterion(IntEnum):
    """When an exit is sure enough."""

    MAX_PROBABILITY = 0
    MARGIN = 1


MAX_PROBABILITY: Final = "max-probability"
CRITERIA: Final = {MAX_PROBABILITY: Criterion.MAX_PROBABILITY, "margin": Criterion.MARGIN}
"""By the names that bundles and commands have for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """One row. Offsets into the arena, except `data`, which is into the blob.

    `k`: values of one inner product, a multiple of 8. `shift`, `m1`, `m2`: of additions and average
    pools; of a pack, `shift` is the bits of a level.
    """

    kind: OpKind
    source: Shape
    shape: Shape
    src: int
    dst: int
    src2: int = 0
    scratch: int = 0
    data: int = 0
    k: int = 0
    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    origin: tuple[int, int] = (0, 0)
    z_in: int = 0
    z_in2: int = 0
    z_out: int = 0
    low: int = 0
    high: int = 255
    shift: int = 0
    m1: int = 0
    m2: int = 0
    crc: int = 0

    @property
    def size(self) -> int:
        """Bytes that it leaves."""
        if self.kind is OpKind.PACK:
            return -(-self.source.size * self.shift // 8)
        return self.shape.size

    @property
    def macs(self) -> int:
        """Multiply-adds of one sample, padding included."""
        window = self.kernel[0] * self.kernel[1]
        if self.kind is OpKind.CONVOLUTION:
            return self.shape.size * window * self.source.c
        return self.shape.size * window if self.kind is OpKind.DEPTHWISE else 0

    @property
    def is_direct(self) -> bool:
        """Whether the input's pixels lie as an inner product reads them, so nothing is gathered."""
        return self.kernel == (1, 1) and self.origin == (0, 0) and self.source.c % LANES == 0

    @property
    def scratch_bytes(self) -> int:
        """What it works in: one window of a convolution, a strip of rows of a depthwise one."""
        if self.kind is OpKind.CONVOLUTION:
            return 0 if self.is_direct else self.k
        if self.kind is OpKind.DEPTHWISE:
            width = (self.shape.w - 1) * self.stride[1] + self.kernel[1]
            return self.kernel[0] * width * self.source.c
        return 0

    @property
    def parameter_bytes(self) -> int:
        """What it has in the blob's data, to a multiple of 4."""
        if self.kind not in (OpKind.CONVOLUTION, OpKind.DEPTHWISE):
            return 0
        size = self.shape.c * (8 + self.k)
        return size + -size % 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What the board sends or decides on: `size` bytes at `offset`, of the quantiser's bits."""

    role: Role
    shape: Shape
    offset: int
    size: int
    quantiser: Quantiser


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Exit:
    """An exit behind the first `ops` operations, that reads output `output`.

    `exponentials[d]` is 65535 * exp(-d * scale / temperature): with it softmax is a sum of
    integers. `limit`: max-probability exits where the sum is at most that; margin where the
    difference of the two largest terms is at least limit/65536 of the sum.
    """

    ops: int
    output: int
    criterion: Criterion
    limit: int
    exponentials: "np.ndarray[tuple[int, ...], np.dtype[np.uint16]]"

    @classmethod
    def at(
        cls,
        *,
        ops: int,
        output: int,
        scale: float,
        temperature: float,
        criterion: Criterion,
        threshold: float,
    ) -> "Exit":
        """Raises ValueError for a threshold outside ]0, 1]."""
        if not 0 < threshold <= 1 or not temperature > 0:
            raise ValueError(f"threshold {threshold} at temperature {temperature}")
        steps = np.arange(EXPONENTIALS, dtype=np.float64)
        exponentials = np.rint(65535 * np.exp(-steps * scale / temperature)).astype(np.uint16)
        inverse = criterion is Criterion.MAX_PROBABILITY
        limit = int(65535 / threshold) if inverse else round(65536 * threshold)
        return cls(
            ops=ops,
            output=output,
            criterion=criterion,
            limit=limit,
            exponentials=exponentials,
        )

    def takes(self, levels: "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]") -> bool:
        """Whether the logits of one sample are sure enough, decided as the board does."""
        ordered = np.sort(levels.reshape(-1))[::-1].astype(np.int64)
        terms = self.exponentials[ordered[0] - ordered].astype(np.int64)
        total = int(terms.sum())
        if self.criterion is Criterion.MAX_PROBABILITY:
            return total <= self.limit
        return bool((int(terms[0]) - int(terms[1:2].sum())) << 16 >= self.limit * total)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Program:
    """A head as the board has it. The ops' `data` counts from the beginning of the blob.

    `front` is the section of its front end (`log_mel_front`, `motion_front`), empty where levels
    come from elsewhere.
    """

    arena: int
    input_shape: Shape
    input_offset: int
    input_quantiser: Quantiser
    ops: tuple[Op, ...]
    outputs: tuple[Output, ...]
    exit: Exit | None
    seed: int
    blob: bytes
    front: bytes = b""


def golden_input(seed: int, size: int) -> bytes:
    """Noise that a board makes as well: Lehmer's generator modulo 65537, 8 middle bits a value."""
    state, values = seed, bytearray(size)
    for at in range(size):
        state = (state * 75 + 74) % _GOLDEN_MODULUS
        values[at] = state >> 4 & 255
    return bytes(values)
