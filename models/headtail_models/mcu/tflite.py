"""A program as a TensorFlow Lite network, for other runtimes: TensorFlow Lite Micro, or a vendor's.

Weights, biases and zero points are the blob's, factors as well: the scales of weights are set to
make them so. What int8 networks have no operator for becomes others that compute the same:

    the board                              here
    average pool, its zeros counted in     depthwise convolution whose weights are 1
    a clamp alone                          the same, of one pixel
    padding that is not SAME               PADV2 in front
    a clamp inside the range of levels     MAXIMUM and MINIMUM behind
    packing of 4 and 2 bits                none: outputs are the levels before it
    exit, front end                        none

Results differ from the board's by one step at most, operation by operation, and seldom: the board
rounds a sum to 16 bits before its 15-bit factor (`fixed_point`), TensorFlow Lite has 31 bits.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headtail_models.mcu.dataflow import Dataflow
from headtail_models.mcu.layers import Shape
from headtail_models.mcu.parameters import Parameters
from headtail_models.mcu.program import Op, OpKind, Program
from headtail_models.mcu.tflite_file import (
    Network,
    Operator,
    OperatorKind,
    Padding,
    Tensor,
    write_tflite,
)

OFFSET: Final = 128
"""Between a level and the int8 that stands for it."""
_TOP: Final = 255


def tflite_of(program: Program) -> bytes:
    """A .tflite file with the program's input (1, h, w, c) and outputs, as int8."""
    return write_tflite(network_of(program))


def network_of(program: Program) -> Network:
    """The same as a value."""
    flow = Dataflow.of(program)
    drawing = _Drawing(flow.scales(program), program.blob)
    drawn = [drawing.value(0, program.input_shape, zero=program.input_quantiser.zero)]
    for step, op in enumerate(flow.ops):
        sources = [drawing.shaped(drawn[value], op.source) for value in flow.inputs[step]]
        drawn.append(drawing.operation(op, sources, step + 1))
    return Network(
        tensors=tuple(drawing.tensors),
        operators=tuple(drawing.operators),
        inputs=(drawn[0],),
        outputs=tuple(drawn[value] for value in flow.outputs),
    )


class _Drawing:
    """Tensors and operators one after another; a tensor is told by its place."""

    def __init__(self, scales: Sequence[float], blob: bytes) -> None:
        self.tensors: list[Tensor] = []
        self.operators: list[Operator] = []
        self._scales = scales
        self._blob = blob

    def value(self, value: int, shape: Shape, *, zero: int) -> int:
        """A tensor for a value of the program."""
        scale = np.array([self._scales[value]], dtype=np.float32)
        return self._tensor(
            Tensor(name=f"value {value}", shape=(1, *shape), scales=scale, zero=zero - OFFSET)
        )

    def shaped(self, at: int, shape: Shape) -> int:
        """What lies at `at`, as rows, columns and channels of `shape`."""
        if self.tensors[at].shape == (1, *shape):
            return at
        name = f"{self.tensors[at].name} as {shape}"
        target = self._tensor(replace(self.tensors[at], name=name, shape=(1, *shape)))
        wanted = self._plain(f"shape of {name}", np.array([1, *shape], dtype=np.int32))
        return self._operator(OperatorKind.RESHAPE, (at, wanted), target)

    def operation(self, op: Op, sources: Sequence[int], value: int) -> int:
        """What an operation leaves as `value`."""
        target = self.value(value, op.shape, zero=op.z_out)
        if len(sources) > 1:
            self._operator(OperatorKind.ADD, tuple(sources), target)
        else:
            self._windowed(op, sources[0], target)
        if op.low > 0:
            target = self._bounded(OperatorKind.MAXIMUM, target, op.low)
        if op.high < _TOP:
            target = self._bounded(OperatorKind.MINIMUM, target, op.high)
        return target

    def _windowed(self, op: Op, source: int, target: int) -> None:
        """A convolution of some kind, or a max pool."""
        is_pool = op.kind is OpKind.MAX_POOL
        axes = list(_axes(op))
        same = all(axis.is_same for axis in axes)
        padded = source
        if not same and any(axis.before or axis.behind for axis in axes):
            padded = self._padded(source, axes, fill=-OFFSET if is_pool else None)
        inputs: tuple[int, ...] = (padded,)
        if not is_pool:
            inputs += self._weights(op, source, target)
        self.operators.append(
            Operator(
                kind=_KINDS[op.kind],
                inputs=inputs,
                output=target,
                padding=Padding.SAME if same else Padding.VALID,
                stride=op.stride,
                kernel=op.kernel,
            )
        )

    def _padded(self, source: int, axes: Sequence["_Axis"], *, fill: int | None) -> int:
        """With `fill` around it, or with zeros."""
        kept = self.tensors[source]
        sides = (axis.before + axis.size + axis.behind for axis in axes)
        shape = (1, *sides, kept.shape[-1])
        target = self._tensor(replace(kept, name=f"{kept.name} padded", shape=shape))
        pads = np.array(
            [(0, 0), *((axis.before, axis.behind) for axis in axes), (0, 0)], dtype=np.int32
        )
        where = self._plain(f"padding of {kept.name}", pads)
        level = self._level(source, kept.zero if fill is None else fill, "filling")
        return self._operator(OperatorKind.PADV2, (source, where, level), target)

    def _weights(self, op: Op, source: int, target: int) -> tuple[int, int]:
        """Weights and biases, with the scales that make a layer's factors what they are."""
        weights, bias, factors = _numbers(op, self._blob)
        one, other = (float(self.tensors[at].scales[0]) for at in (source, target))
        scales = (factors * other / one).astype(np.float32)
        name = self.tensors[target].name
        dense = op.kind is OpKind.CONVOLUTION
        if dense:
            stored = weights.reshape(op.shape.c, *op.kernel, op.source.c)
        else:
            stored = weights.T.reshape(1, *op.kernel, op.shape.c)
        return (
            self._tensor(
                Tensor(
                    name=f"weights of {name}",
                    shape=stored.shape,
                    scales=scales,
                    axis=0 if dense else 3,
                    data=stored.astype(np.int8),
                )
            ),
            self._tensor(
                Tensor(
                    name=f"bias of {name}",
                    shape=bias.shape,
                    scales=(scales * one).astype(np.float32),
                    data=bias.astype(np.int32),
                )
            ),
        )

    def _bounded(self, kind: OperatorKind, source: int, level: int) -> int:
        """Nothing below, or nothing above, a level."""
        kept = self.tensors[source]
        target = self._tensor(replace(kept, name=f"{kept.name} {kind.name.lower()}"))
        bound = self._level(source, level - OFFSET, kind.name.lower())
        return self._operator(kind, (source, bound), target)

    def _level(self, like: int, level: int, what: str) -> int:
        kept = self.tensors[like]
        data = np.array([level], dtype=np.int8)
        return self._tensor(replace(kept, name=f"{what} of {kept.name}", shape=(1,), data=data))

    def _plain(self, name: str, data: NDArray[np.int32]) -> int:
        nothing = np.zeros(0, dtype=np.float32)
        return self._tensor(Tensor(name=name, shape=data.shape, scales=nothing, data=data))

    def _tensor(self, tensor: Tensor) -> int:
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    def _operator(self, kind: OperatorKind, inputs: tuple[int, ...], output: int) -> int:
        self.operators.append(Operator(kind=kind, inputs=inputs, output=output))
        return output


_KINDS: Final = {
    OpKind.CONVOLUTION: OperatorKind.CONV_2D,
    OpKind.DEPTHWISE: OperatorKind.DEPTHWISE_CONV_2D,
    OpKind.AVERAGE_POOL: OperatorKind.DEPTHWISE_CONV_2D,
    OpKind.ADDITION: OperatorKind.DEPTHWISE_CONV_2D,
    OpKind.MAX_POOL: OperatorKind.MAX_POOL_2D,
}
"""Of operations with one input."""


def _numbers(
    op: Op, blob: bytes
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Weights (channels, taps), biases and factors without what the board folds into them."""
    channels, taps = op.shape.c, op.kernel[0] * op.kernel[1]
    if op.kind in (OpKind.AVERAGE_POOL, OpKind.ADDITION):
        ones = np.ones((channels, taps), dtype=np.int64)
        factor = max(op.m1, op.m2) / 2.0**op.shift
        return ones, np.zeros(channels, dtype=np.int64), np.full(channels, factor)
    found = Parameters.of(op, blob)
    drop, multiplier, shift = found.factors.T
    weights = found.weights[:, : taps * (op.source.c if op.kind is OpKind.CONVOLUTION else 1)]
    bias = found.bias - (1 << drop >> 1) + op.z_in * weights.sum(axis=1)
    return weights, bias, multiplier / 2.0 ** (drop + shift)


class _Axis(NamedTuple):
    """Rows or columns: how many there are, and how many are missing before and behind them."""

    size: int
    before: int
    behind: int
    is_same: bool
    """Whether TensorFlow's SAME adds just those."""


def _axes(op: Op) -> Iterator[_Axis]:
    for axis in range(2):
        size, out, step = op.source[axis], op.shape[axis], op.stride[axis]
        missing = max(0, (out - 1) * step + op.kernel[axis] - size)
        before = op.origin[axis]
        yield _Axis(
            size=size,
            before=before,
            behind=max(0, missing - before),
            is_same=out == -(-size // step) and before == missing // 2,
        )
