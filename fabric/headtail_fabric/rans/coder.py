"""Levels to payloads and back.

    payload   00, CRC-32 u32 LE, levels - low packed        when that is the smaller one
              01, low bits of the levels packed, body       the body as in `lanes`

Packed means most significant bit first, zeros to the end of the byte. The CRC covers the shape,
the levels that come out and the model itself, so a payload read with other tables than it was
written with is refused, like a damaged one. In the second form it lies in the first two states of
the body, where it costs nothing. The first form bounds the size of every payload: a tensor
crafted to defeat the tables costs its plain bits and five bytes. ("EntropyR", ECCV 2024, shows
how inputs are crafted that make a learned code's traffic grow by up to 95 %.)
"""

import struct
import zlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headtail_fabric.codec.base import Array, CodecError
from headtail_fabric.rans import bits
from headtail_fabric.rans.bits import Ints
from headtail_fabric.rans.layout import Layout, NumpyLayout
from headtail_fabric.rans.model import CodingModel
from headtail_fabric.rans.native import NativeLayout, library
from headtail_fabric.rans.wavefront import MAX_ELEMENTS, Shape4, four_axes
from headtail_fabric.wire import Buffer, Frames

Levels = NDArray[np.int16]

_PLAIN: Final = 0
_CODED: Final = 1
_PLAIN_HEAD: Final = struct.Struct("<BI")
_KEPT_LAYOUTS: Final = 4


class LevelCoder:
    """Codes tensors of levels by a model. Not thread-safe: one object a thread.

    `native`: in C where that was compiled, else in numpy; the payloads are the same.
    """

    def __init__(self, model: CodingModel, *, native: bool = True) -> None:
        self.model = model
        self._digest = model.digest
        self._kernels = library() if native else None
        self._layouts: OrderedDict[Shape4, Layout] = OrderedDict()

    def max_bytes(self, shape: tuple[int, ...]) -> int:
        """What no payload for a tensor of `shape` exceeds."""
        return _PLAIN_HEAD.size + _packed_bytes(_elements(shape), self.model.alphabet.bits)

    def encode(self, levels: Levels) -> bytes:
        """The payload. Raises ValueError for a wrong shape, or levels outside the alphabet."""
        axes = self._axes(levels.shape)
        offsets = levels.reshape(axes).astype(np.int32) - self.model.alphabet.low
        if offsets.size and not 0 <= offsets.min() <= offsets.max() < self.model.alphabet.count:
            raise ValueError(f"levels outside {self.model.alphabet}")
        check = self._check(levels)
        if offsets.size:
            shift = self.model.alphabet.plain_bits
            tiling = self._tiling(axes)
            body = self._layout(tiling.tiled).encode(tiling.cut(offsets >> shift), seed=check)
            low_bits = _pack(offsets & (1 << shift) - 1, shift) if shift else b""
            coded = b"".join((bytes([_CODED]), low_bits, body))
            if len(coded) < self.max_bytes(levels.shape):
                return coded
        return _PLAIN_HEAD.pack(_PLAIN, check) + _pack(offsets, self.model.alphabet.bits)

    def decode(self, payload: Buffer, shape: tuple[int, ...]) -> Levels:
        """The levels. Raises CodecError, whatever comes."""
        return self.decode_all([payload], shape)

    def decode_all(self, payloads: Frames, shape: tuple[int, ...]) -> Levels:
        """The levels of some payloads, each of a tensor of `shape`, joined on the first axis.

        Most of decoding is a row of small steps, each front after the one before; several
        payloads go through them together. Raises CodecError when any of them is bad.
        """
        try:
            axes = self._axes(shape)
        except ValueError as error:
            raise CodecError(str(error)) from None
        offsets = np.empty((len(payloads), *axes), dtype=np.int32)
        checks, coded = [0] * len(payloads), {}
        for row, payload in enumerate(payloads):
            data = memoryview(payload).cast("B")
            if not 1 <= len(data) <= self.max_bytes(shape):
                raise CodecError(f"payload of {len(data)} bytes for a tensor of shape {shape}")
            if data[0] == _PLAIN and len(data) == self.max_bytes(shape):
                _, checks[row] = _PLAIN_HEAD.unpack_from(data)
                offsets[row] = _unpack(data[_PLAIN_HEAD.size :], axes, self.model.alphabet.bits)
            elif data[0] == _CODED and _elements(shape):
                coded[row] = data[1:]
            else:
                raise CodecError(f"payload of kind {data[0]} and {len(data)} bytes")
        at_once = MAX_ELEMENTS // max(1, _elements(axes))
        for first in range(0, len(coded), at_once):
            rows = list(coded)[first : first + at_once]
            offsets[rows], seeds = self._decode([coded[row] for row in rows], axes)
            for row, seed in zip(rows, seeds, strict=True):
                checks[row] = seed
        if offsets.size and int(offsets.max()) >= self.model.alphabet.count:
            raise CodecError(f"a level beyond {self.model.alphabet}")
        levels = (offsets + self.model.alphabet.low).astype(np.int16)
        levels = levels.reshape(len(payloads), *shape)
        for own, check in zip(levels, checks, strict=True):
            if self._check(own) != check:
                raise CodecError("the check value is wrong: damaged, or written with other tables")
        return levels.reshape(len(payloads) * shape[0], *shape[1:])

    def _decode(
        self, bodies: Sequence[memoryview], axes: Shape4
    ) -> tuple[NDArray[np.int32], list[int]]:
        """The elements of some tensors, (tensors N C H W), and the check values of all."""
        shift = self.model.alphabet.plain_bits
        split = _packed_bytes(_elements(axes), shift)
        if (shortest := min(map(len, bodies))) < split:
            raise CodecError(f"payload of {shortest + 1} bytes, too short for shape {axes}")
        layout = self._layout(self._tiling(axes).tiled)
        tiled, checks = layout.decode([body[split:] for body in bodies])
        joined = self._tiling((len(bodies) * axes[0], *axes[1:])).join(tiled)
        offsets = joined.reshape(len(bodies), *axes)
        if shift:
            offsets = offsets << shift
            for own, body in zip(offsets, bodies, strict=True):
                own |= _unpack(body[:split], axes, shift)
        return offsets, checks

    def _axes(self, shape: tuple[int, ...]) -> Shape4:
        axes = four_axes(shape)
        if axes[1] != self.model.context.channels:
            raise ValueError(
                f"a tensor of shape {shape}, the context has {self.model.context.channels} channels"
            )
        return axes

    def _tiling(self, axes: Shape4) -> "_Tiling":
        # A height or width that can't be cut evenly is left whole.
        rows, columns = self.model.tiles
        return _Tiling(
            axes, rows if axes[2] % rows == 0 else 1, columns if axes[3] % columns == 0 else 1
        )

    def _layout(self, axes: Shape4) -> Layout:
        layout = self._layouts.get(axes)
        if layout is None:
            layout = self._layouts[axes] = self._laid_out(axes)
            if len(self._layouts) > _KEPT_LAYOUTS:
                self._layouts.popitem(last=False)
        else:
            self._layouts.move_to_end(axes)
        return layout

    def _laid_out(self, axes: Shape4) -> Layout:
        if self._kernels is not None:
            return NativeLayout(self._kernels, self.model, axes)
        return NumpyLayout(self.model, axes)

    def _check(self, levels: Levels) -> int:
        shape = struct.pack(f"<{levels.ndim}I", *levels.shape)
        values = np.ascontiguousarray(levels, dtype="<i2")
        return zlib.crc32(values.tobytes(), zlib.crc32(shape, self._digest))


class _Tiling:
    """Cuts a picture into tiles that are coded as pictures of their own, all at once."""

    def __init__(self, axes: Shape4, rows: int, columns: int) -> None:
        images, channels, height, width = axes
        self._axes = axes
        self._cut = (images, channels, rows, height // rows, columns, width // columns)
        self.tiled: Shape4 = (images * rows * columns, channels, height // rows, width // columns)

    def cut(self, values: NDArray[np.int32]) -> NDArray[np.int32]:
        return values.reshape(self._cut).transpose(0, 2, 4, 1, 3, 5).reshape(self.tiled)

    def join(self, values: NDArray[np.int32]) -> NDArray[np.int32]:
        images, channels, rows, height, columns, width = self._cut
        apart = values.reshape(images, rows, columns, channels, height, width)
        return apart.transpose(0, 3, 1, 4, 2, 5).reshape(self._axes)


def _elements(shape: tuple[int, ...]) -> int:
    return int(np.prod(shape, dtype=np.int64))


def _packed_bytes(count: int, width: int) -> int:
    return (count * width + 7) // 8


def _pack(values: Array, width: int) -> bytes:
    flat: Ints = values.reshape(-1).astype(np.int64)
    return np.packbits(bits.join(flat, width)).tobytes()


def _unpack(data: memoryview, shape: Shape4, width: int) -> NDArray[np.int32]:
    """The inverse of `_pack`. Raises CodecError where the rest of the last byte is not zero."""
    count = _elements(shape)
    stream = np.unpackbits(np.frombuffer(data, dtype=np.uint8))
    if stream[count * width :].any():
        raise CodecError("the rest of the last byte is not zero")
    return bits.split(stream[: count * width], width).astype(np.int32).reshape(shape)
