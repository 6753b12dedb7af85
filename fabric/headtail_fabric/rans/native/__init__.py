"""The coder in C, for where a compiler was at hand when Headtail was installed.

`kernels.c` is compiled into this folder as a plain shared library; without it, or with
HEADTAIL_NATIVE=0 in the environment, all is done in numpy. Both are exact to the bit. The
interpreter is free for other threads while a payload is coded.
"""

import ctypes
import logging
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from headtail_fabric.codec.base import CodecError
from headtail_fabric.rans import lanes
from headtail_fabric.rans.bits import Number
from headtail_fabric.rans.conv_context import ConvPlan
from headtail_fabric.rans.frequencies import PRECISION, STATE_BITS, FrequencyTables
from headtail_fabric.rans.lanes import MAX_LANES
from headtail_fabric.rans.layout import Int32s
from headtail_fabric.rans.model import CodingModel
from headtail_fabric.rans.table_context import TablePlan
from headtail_fabric.rans.wavefront import Shape4

LIBRARY: Final = Path(__file__).parent / "_kernels.so"
SWITCH: Final = "HEADTAIL_NATIVE"
_VERSION: Final = 1
_BLOCK: Final = 32
_KNOWN: Final = np.dtype(np.int16)
_PADDING: Final = bytes(4)
_FAILURES: Final = {1: "the payload ends too early", 2: "the payload does not end where it should"}

log = logging.getLogger(__name__)


@cache
def library() -> ctypes.CDLL | None:
    """The kernels; None where they were not compiled, are not wanted or are of another version."""
    if os.environ.get(SWITCH) == "0":
        return None
    if not LIBRARY.exists():
        log.info("the coder's kernels were not compiled, numpy does their work")
        return None
    try:
        found = ctypes.CDLL(str(LIBRARY))
        found.headtail_rans_version.restype = ctypes.c_int64
        version = found.headtail_rans_version()
    except (OSError, AttributeError) as error:
        log.warning("the coder's kernels can't be loaded, numpy does their work: %s", error)
        return None
    if version != _VERSION:
        log.warning("the coder's kernels have version %d, not %d: install again", version, _VERSION)
        return None
    found.headtail_rans_encode.restype = ctypes.c_int64
    found.headtail_rans_decode.restype = ctypes.c_int64
    found.headtail_rans_survey.restype = None
    return found


class _Record(ctypes.Structure):
    """Keeps what its pointers point at."""

    def hold(self, **arrays: NDArray[Any]) -> None:
        for name, array in arrays.items():
            assert array.flags.c_contiguous
            setattr(self, name, array.ctypes.data)
        self.held = [*getattr(self, "held", []), *arrays.values()]


class _Tables(_Record):
    _fields_ = (
        ("symbols", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("frequencies", "starts", "owners")),
    )

    def __init__(self, tables: FrequencyTables) -> None:
        super().__init__(symbols=tables.symbols)
        self.hold(frequencies=tables.frequencies, starts=tables.starts, owners=tables.owners)


class _Plan(_Record):
    _fields_ = (
        *((name, ctypes.c_int64) for name in ("fronts", "images", "channels")),
        *((name, ctypes.c_void_p) for name in ("starts", "centres")),
        *((n, ctypes.c_int64) for n in ("convolution", "hidden", "outputs")),
        *((name, ctypes.c_int64) for name in ("taps", "shift1", "shift2")),
        *((n, ctypes.c_void_p) for n in ("weights1", "biases1", "weights2", "biases2")),
        *((name, ctypes.c_void_p) for name in ("places", "around")),
        *((name, ctypes.c_void_p) for name in ("neighbours", "channel_of")),
        *((name, ctypes.c_void_p) for name in ("weights", "biases", "cells")),
    )

    def __init__(self, plan: ConvPlan | TablePlan) -> None:
        images, channels = plan.wave.shape[:2]
        super().__init__(fronts=len(plan.starts) - 1, images=images, channels=channels)
        self.hold(
            starts=np.array(plan.starts, dtype=np.int64),
            centres=np.ascontiguousarray(plan.context.centres),
        )
        if isinstance(plan, ConvPlan):
            self._hold_convolution(plan)
        else:
            self._hold_table(plan)

    def _hold_convolution(self, plan: ConvPlan) -> None:
        context = plan.context
        biases1 = _filled_up(context.biases1, axis=0, to=_BLOCK)
        biases2 = _filled_up(context.biases2, axis=0, to=_BLOCK)
        self.convolution, self.hidden, self.outputs = 1, biases1.size, biases2.size
        self.taps = context.weights1.shape[2]
        self.shift1, self.shift2 = context.shift1, context.shift2
        self.hold(
            weights1=_paired(context.weights1.transpose(2, 1, 0)),
            biases1=biases1,
            weights2=_paired(context.weights2.T),
            biases2=biases2,
            places=plan.places,
            around=plan.around,
        )

    def _hold_table(self, plan: TablePlan) -> None:
        context = plan.context
        self.hold(
            neighbours=np.ascontiguousarray(plan.neighbours.T),
            channel_of=plan.wave.channels,
            weights=np.ascontiguousarray(context.weights, dtype=np.int32),
            biases=np.ascontiguousarray(context.biases),
            cells=np.ascontiguousarray(context.cells),
        )


class NativeLayout:
    """A `Layout`. Raises ValueError when the shape's channels are not the context's."""

    def __init__(self, kernels: ctypes.CDLL, model: CodingModel, shape: Shape4) -> None:
        self._kernels = kernels
        self._tables = _Tables(model.tables)
        self._plan = model.context.plan(shape)
        self._c_plan = _Plan(self._plan)
        starts = np.array(self._plan.starts)
        self._elements = int(starts[-1])
        largest = int(np.diff(starts).max(initial=0))
        # What the kernels work in.
        self._means = np.empty(max(largest, model.context.channels), dtype=np.int32)
        self._chosen = np.empty(max(largest, model.context.channels), dtype=np.uint8)

    def encode(self, symbols: Int32s, *, seed: int) -> bytes:
        known = self._plan.known(symbols, _KNOWN)
        chosen = np.empty(self._elements, dtype=np.uint8)
        codes = np.empty(self._elements, dtype=np.uint8)
        self._kernels.headtail_rans_survey(
            ctypes.byref(self._c_plan),
            ctypes.c_int64(self._tables.symbols),
            _at(known),
            _at(self._means),
            _at(self._chosen),
            _at(chosen),
            _at(codes),
        )
        first = lanes.first_lanes_for(self._elements)
        stream = np.empty(PRECISION * self._elements + STATE_BITS * MAX_LANES, dtype=np.uint8)
        stages = np.zeros(MAX_LANES.bit_length(), dtype=np.int64)
        doublings = ctypes.c_int64()
        begin = self._kernels.headtail_rans_encode(
            ctypes.byref(self._tables),
            _at(chosen),
            _at(codes),
            ctypes.c_void_p(self._c_plan.starts),
            ctypes.c_int64(self._c_plan.fronts),
            ctypes.c_uint64(seed),
            ctypes.c_int64(first),
            ctypes.c_int64(MAX_LANES),
            _at(stream),
            ctypes.c_int64(stream.size),
            _at(stages),
            ctypes.byref(doublings),
        )
        return lanes.body_of(first, stages[: doublings.value].tolist(), stream[begin:])

    def decode(self, bodies: Sequence[memoryview]) -> tuple[Int32s, list[int]]:
        known = self._plan.nothing(_KNOWN, len(bodies))
        rows = known.reshape(len(bodies), -1)
        seeds = [self._decode(body, row) for body, row in zip(bodies, rows, strict=True)]
        return self._plan.symbols(known), seeds

    def _decode(self, body: memoryview, known: NDArray[np.int16]) -> int:
        """The seed; the elements become known."""
        head = lanes.Head.of(body, self._c_plan.fronts)
        stream = np.frombuffer(bytes(body[head.size :]) + _PADDING, dtype=np.uint8).copy()
        stages = np.array(head.stages, dtype=np.int64)
        seed = ctypes.c_uint64()
        failed = self._kernels.headtail_rans_decode(
            ctypes.byref(self._c_plan),
            ctypes.byref(self._tables),
            _at(stream),
            ctypes.c_int64(8 * (stream.size - len(_PADDING))),
            ctypes.c_int64(head.lanes),
            _at(stages),
            ctypes.c_int64(stages.size - 1),
            _at(known),
            _at(self._means),
            _at(self._chosen),
            ctypes.byref(seed),
        )
        if failed:
            raise CodecError(_FAILURES[failed])
        return seed.value


def _paired(weights: NDArray[np.int16]) -> NDArray[np.int16]:
    """(..., inputs, outputs) as (..., pairs of inputs, outputs in whole blocks, 2)."""
    whole = _filled_up(_filled_up(weights, axis=-1, to=_BLOCK), axis=-2, to=2)
    pairs = whole.reshape(*whole.shape[:-2], -1, 2, whole.shape[-1])
    return np.ascontiguousarray(pairs.swapaxes(-1, -2))


def _filled_up(array: NDArray[Number], *, axis: int, to: int) -> NDArray[Number]:
    """With zeros behind, to a multiple of `to`."""
    widths = [(0, 0)] * array.ndim
    widths[axis] = (0, -array.shape[axis] % to)
    return np.pad(array, widths)


def _at(array: NDArray[Any]) -> ctypes.c_void_p:
    """Its first element; the caller keeps the array."""
    return ctypes.c_void_p(array.ctypes.data)
