"""The file format of TensorFlow Lite, schema version 3, as far as heads need it.

Tables are written by the numbers that their fields have in TensorFlow's `schema.fbs`, with the
builder of `flatbuffers`, so no generated classes are needed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import flatbuffers
import numpy as np
from numpy.typing import NDArray

IDENTIFIER: Final = b"TFL3"
_SCHEMA: Final = 3
_ALIGNMENT: Final = 16
"""Of constants, by the schema."""
_TYPES: Final = {np.dtype(np.int8): 9, np.dtype(np.int32): 2}


class OperatorKind(IntEnum):
    """By their numbers in the schema."""

    ADD = 0
    CONV_2D = 3
    DEPTHWISE_CONV_2D = 4
    MAX_POOL_2D = 17
    RESHAPE = 22
    MAXIMUM = 55
    MINIMUM = 57
    PADV2 = 60


class Padding(IntEnum):
    """SAME puts half of what is missing, rounded down, before the first row or column."""

    SAME = 0
    VALID = 1


_VERSIONS: Final = {OperatorKind.CONV_2D: 3, OperatorKind.DEPTHWISE_CONV_2D: 3}
"""Of operators with 8-bit weights a channel; 2 for the others with 8-bit values."""
_OPTIONS: Final = {
    OperatorKind.ADD: 11,
    OperatorKind.CONV_2D: 1,
    OperatorKind.DEPTHWISE_CONV_2D: 2,
    OperatorKind.MAX_POOL_2D: 5,
    OperatorKind.RESHAPE: 17,
    OperatorKind.MAXIMUM: 39,
    OperatorKind.MINIMUM: 39,
    OperatorKind.PADV2: 43,
}
"""The number of each operator's table of options."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tensor:
    """int8 or int32. `scales` are one, or one for each index along `axis`; none of what is no
    quantity. Constants have `data`."""

    name: str
    shape: tuple[int, ...]
    scales: NDArray[np.float32]
    zero: int = 0
    axis: int = 0
    data: NDArray[np.int8] | NDArray[np.int32] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """`inputs` and `output` are places in the list of tensors. `kernel` is of a pool only."""

    kind: OperatorKind
    inputs: tuple[int, ...]
    output: int
    padding: Padding = Padding.VALID
    stride: tuple[int, int] = (1, 1)
    kernel: tuple[int, int] = (1, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """One subgraph, its operators in the order in which they run."""

    tensors: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def write_tflite(network: Network) -> bytes:
    """The bytes of a .tflite file."""
    return _Writer().model(network)


class _Writer:
    """Flatbuffers are written from the leaves to the root."""

    def __init__(self) -> None:
        self._builder = flatbuffers.Builder(1024)

    def model(self, network: Network) -> bytes:
        kinds = sorted({operator.kind for operator in network.operators})
        constants = [t.data.tobytes() for t in network.tensors if t.data is not None]
        buffers = self._offsets([self._table({}), *map(self._buffer, constants)])
        places = iter(range(1, len(constants) + 1))
        tensors = self._offsets(
            [self._tensor(t, 0 if t.data is None else next(places)) for t in network.tensors]
        )
        operators = self._offsets(
            [self._operator(one, kinds.index(one.kind)) for one in network.operators]
        )
        subgraph = self._table(
            {
                0: ("offset", tensors),
                1: ("offset", self._numbers(np.array(network.inputs, dtype=np.int32))),
                2: ("offset", self._numbers(np.array(network.outputs, dtype=np.int32))),
                3: ("offset", operators),
            }
        )
        root = self._table(
            {
                0: ("u32", _SCHEMA),
                1: ("offset", self._offsets([self._code(kind) for kind in kinds])),
                2: ("offset", self._offsets([subgraph])),
                4: ("offset", buffers),
            }
        )
        self._builder.Finish(root, file_identifier=IDENTIFIER)
        return bytes(self._builder.Output())

    def _code(self, kind: OperatorKind) -> int:
        version = 1 if kind is OperatorKind.RESHAPE else _VERSIONS.get(kind, 2)
        return self._table({0: ("i8", kind), 2: ("i32", version), 3: ("i32", kind)})

    def _buffer(self, data: bytes) -> int:
        builder = self._builder
        builder.StartVector(1, len(data), _ALIGNMENT)
        builder.head -= len(data)
        builder.Bytes[builder.head : builder.head + len(data)] = data
        return self._table({0: ("offset", builder.EndVector())})

    def _tensor(self, tensor: Tensor, buffer: int) -> int:
        dtype = np.dtype(np.int8) if tensor.data is None else tensor.data.dtype
        fields = {
            0: ("offset", self._numbers(np.array(tensor.shape, dtype=np.int32))),
            1: ("i8", _TYPES[dtype]),
            2: ("u32", buffer),
            3: ("offset", self._builder.CreateString(tensor.name)),
        }
        if tensor.scales.size:
            zeros = np.full(tensor.scales.size, tensor.zero, dtype=np.int64)
            quantisation = {
                2: ("offset", self._numbers(tensor.scales)),
                3: ("offset", self._numbers(zeros)),
                6: ("i32", tensor.axis),
            }
            fields[4] = "offset", self._table(quantisation)
        return self._table(fields)

    def _operator(self, operator: Operator, code: int) -> int:
        return self._table(
            {
                0: ("u32", code),
                1: ("offset", self._numbers(np.array(operator.inputs, dtype=np.int32))),
                2: ("offset", self._numbers(np.array([operator.output], dtype=np.int32))),
                3: ("u8", _OPTIONS[operator.kind]),
                4: ("offset", self._table(_options(operator))),
            }
        )

    def _numbers(self, values: NDArray[np.generic]) -> int:
        return int(self._builder.CreateNumpyVector(values))

    def _offsets(self, offsets: Sequence[int]) -> int:
        self._builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            self._builder.PrependUOffsetTRelative(offset)
        return int(self._builder.EndVector())

    def _table(self, fields: Mapping[int, tuple[str, int]]) -> int:
        """By field number: the type and the value. What is zero is written as well."""
        builder = self._builder
        builder.StartObject(max(fields, default=-1) + 1)
        prepend = {
            "offset": builder.PrependUOffsetTRelative,
            "i8": builder.PrependInt8,
            "u8": builder.PrependUint8,
            "i32": builder.PrependInt32,
            "u32": builder.PrependUint32,
        }
        for number, (kind, value) in fields.items():
            prepend[kind](value)
            builder.Slot(number)
        return int(builder.EndObject())


def _options(operator: Operator) -> dict[int, tuple[str, int]]:
    window = {
        0: ("i8", operator.padding),
        1: ("i32", operator.stride[1]),
        2: ("i32", operator.stride[0]),
    }
    match operator.kind:
        case OperatorKind.CONV_2D:
            return window
        case OperatorKind.DEPTHWISE_CONV_2D:
            return window | {3: ("i32", 1)}
        case OperatorKind.MAX_POOL_2D:
            height, width = operator.kernel
            return window | {3: ("i32", width), 4: ("i32", height)}
        case _:
            return {}
