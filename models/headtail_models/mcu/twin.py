"""The board's arithmetic in numpy, bit for bit: what accuracy is measured with.

It runs the blob itself, so what it says of a head holds for the very bytes that are shipped.
"""

from dataclasses import dataclass

import numpy as np

from headtail_models.mcu import windows as sliding
from headtail_models.mcu.errors import BlobError
from headtail_models.mcu.features import pack, unpack
from headtail_models.mcu.fixed_point import Integers, scaled
from headtail_models.mcu.layers import Floats
from headtail_models.mcu.parameters import Parameters
from headtail_models.mcu.program import Op, OpKind, Output, Program
from headtail_models.mcu.ranges import Levels


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outcome:
    """Of one sample. `features` and `logits` as levels, unpacked; `packed` as the board sends them.

    `exited`: the exit was sure, so the board would have computed no features.
    """

    packed: tuple[bytes, ...]
    levels: tuple[Levels, ...]
    exited: bool


class Twin:
    """Runs a program on samples of real values or of levels."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._params = tuple(Parameters.of(op, program.blob) for op in program.ops)

    def run(self, samples: Floats) -> list[Outcome]:
        """Outcomes of samples (N, h, w, c)."""
        return [self.run_levels(self._program.input_quantiser.levels(s)) for s in samples]

    def run_levels(self, levels: Levels) -> Outcome:
        """Outcome of one sample (h, w, c) as the board's front end hands it over."""
        arena = _Arena(self._program, levels)
        for op, parameters in zip(self._program.ops, self._params, strict=True):
            arena.write(op.dst, _run(op, parameters, arena))
        outputs = self._program.outputs
        found = tuple(_unpack(arena.read(o.offset, o.size), o) for o in outputs)
        leave = self._program.exit
        return Outcome(
            packed=tuple(arena.read(o.offset, o.size).tobytes() for o in outputs),
            levels=found,
            exited=leave is not None and leave.takes(found[leave.output]),
        )

    def trace(self, levels: Levels) -> list[bytes]:
        """What each op leaves, for one sample."""
        arena, left = _Arena(self._program, levels), []
        for op, parameters in zip(self._program.ops, self._params, strict=True):
            result = _run(op, parameters, arena)
            arena.write(op.dst, result)
            left.append(result.tobytes())
        return left


class _Arena:
    """The board's one block of memory, so that a wrong plan shows here as it would there."""

    def __init__(self, program: Program, levels: Levels) -> None:
        if levels.size != program.input_shape.size:
            raise ValueError(f"{levels.shape} levels for an input of {program.input_shape}")
        self._bytes = np.zeros(program.arena, dtype=np.uint8)
        self.write(program.input_offset, levels)

    def read(self, offset: int, size: int) -> Levels:
        """A copy. Raises BlobError."""
        if offset + size > self._bytes.size:
            raise BlobError(f"{size} bytes at {offset} of an arena of {self._bytes.size}")
        return self._bytes[offset : offset + size].copy()

    def write(self, offset: int, values: Levels) -> None:
        """Raises BlobError."""
        if offset + values.size > self._bytes.size:
            raise BlobError(f"{values.size} bytes at {offset} of an arena of {self._bytes.size}")
        self._bytes[offset : offset + values.size] = values.reshape(-1)


def sums(op: Op, parameters: Parameters, x: Integers) -> Integers:
    """Of a convolution of either kind: the accumulators for an input of op.source, biases and all
    that is folded into them included."""
    windows = _windows(op, x, fill=op.z_in)
    if op.kind is OpKind.CONVOLUTION:
        columns = windows.reshape(op.shape.h * op.shape.w, -1)
        weights = parameters.weights[:, : columns.shape[-1]]
        # In float64, which is exact here (below 2**53) and has a fast matrix product.
        acc = (columns.astype(np.float64) @ weights.T.astype(np.float64)).astype(np.int64)
        return acc.reshape(op.shape) + parameters.bias
    taps = windows.reshape(*op.shape[:2], -1, op.shape.c)
    total: Integers = (taps * parameters.weights.T).sum(axis=2) + parameters.bias
    return total


def _run(op: Op, parameters: Parameters, arena: _Arena) -> Levels:
    x = arena.read(op.src, op.source.size).reshape(op.source).astype(np.int64)
    match op.kind:
        case OpKind.CONVOLUTION | OpKind.DEPTHWISE:
            y = scaled(sums(op, parameters, x), parameters.factors) + op.z_out
        case OpKind.ADDITION:
            second = arena.read(op.src2, op.source.size).reshape(op.source).astype(np.int64)
            total = (x - op.z_in) * op.m1 + (second - op.z_in2) * op.m2
            y = _rounded(total, op.shift) + op.z_out
        case OpKind.MAX_POOL:
            y = _windows(op, x, fill=0).max(axis=(2, 3))
        case OpKind.AVERAGE_POOL:
            total = _windows(op, x - op.z_in, fill=0).sum(axis=(2, 3))
            y = _rounded(total * op.m1, op.shift) + op.z_out
        case OpKind.PACK:
            return pack(x.astype(np.uint8), bits=op.shift)
    return np.clip(y, op.low, op.high).astype(np.uint8)


def _windows(op: Op, x: Integers, *, fill: int) -> Integers:
    looked: Integers = sliding.windows(
        x[np.newaxis],
        shape=op.shape,
        kernel=op.kernel,
        stride=op.stride,
        origin=op.origin,
        fill=fill,
    )[0]
    return looked


def _rounded(total: Integers, shift: int) -> Integers:
    return (total + (1 << (shift - 1))) >> shift


def _unpack(found: Levels, output: Output) -> Levels:
    levels = unpack(found, bits=output.quantiser.bits, size=output.shape.size)
    return levels.reshape(output.shape)
