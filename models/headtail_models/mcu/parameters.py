"""What a convolution has of each channel, read back out of a blob."""

from dataclasses import dataclass

import numpy as np

from headtail_models.mcu.errors import BlobError
from headtail_models.mcu.fixed_point import Integers
from headtail_models.mcu.program import CHANNEL, Op, OpKind


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Parameters:
    """`bias` (channels), with the input's zero point and the half of `drop` folded in; `factors`
    (channels, 3: drop, multiplier, shift); `weights` (channels, k), signed. Empty of operations
    that have none."""

    bias: Integers
    factors: Integers
    weights: Integers

    @classmethod
    def of(cls, op: Op, blob: bytes) -> "Parameters":
        """Raises BlobError."""
        if op.kind not in (OpKind.CONVOLUTION, OpKind.DEPTHWISE):
            nothing = np.zeros(0, dtype=np.int64)
            return cls(bias=nothing, factors=nothing, weights=nothing)
        c, each = op.shape.c, op.k
        if op.data + c * (8 + each) > len(blob) - 4:
            raise BlobError(f"parameters at {op.data} of a blob of {len(blob)} bytes")
        table = np.frombuffer(blob, CHANNEL, c, op.data)
        weights = np.frombuffer(blob, np.uint8, c * each, op.data + 8 * c)
        return cls(
            bias=table["bias"].astype(np.int64),
            factors=np.stack(
                [table[name].astype(np.int64) for name in ("drop", "multiplier", "shift")], axis=1
            ),
            weights=weights.reshape(c, each).astype(np.int64) - 128,
        )
