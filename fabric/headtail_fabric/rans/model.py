"""A coding model: all the integers that both ends of a payload must have, and its file.

    file       "HTRC", version u8 = 1, context u8 (0 table, 1 convolution), low i16, levels u16,
               tile rows u8, tile columns u8, tables u16, channels u16, frequencies, context, CRC-32
    table      centres i16, references i16, weights i16, biases i32, cells u8
    conv       radius u8, shift1 u8, shift2 u8, hidden u16, centres i16, weights1 i16, biases1 i32,
               weights2 i16, biases2 i32

Little-endian, arrays in C order with the shapes that the contexts give; the CRC is over all
before it.
"""

import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from headtail_fabric.codec.base import CodecError
from headtail_fabric.rans import conv_context
from headtail_fabric.rans.alphabet import Alphabet
from headtail_fabric.rans.conv_context import ConvContext
from headtail_fabric.rans.frequencies import FrequencyTables
from headtail_fabric.rans.table_context import (
    ACTIVITY_BINS,
    REFERENCES,
    TAPS,
    VALUE_BINS,
    TableContext,
)

MAX_TILES: Final = 8
_MAGIC: Final = b"HTRC"
_VERSION: Final = 1
_TABLE: Final = 0
_CONV: Final = 1
_HEAD: Final = struct.Struct("<4sBBhHBBHH")
_CONV_HEAD: Final = struct.Struct("<BBBH")
_CRC: Final = struct.Struct("<I")


@dataclass(frozen=True, kw_only=True, eq=False)
class CodingModel:
    """Alphabet, context and frequency tables that fit each other.

    `tiles`: rows and columns of tiles that a picture is cut into, each coded without looking at
    the others. That costs some bits and makes the decoder faster: it has fewer fronts to go
    through. Raises ValueError when the parts don't fit.
    """

    alphabet: Alphabet
    context: TableContext | ConvContext
    tables: FrequencyTables
    tiles: tuple[int, int] = (1, 1)

    def __post_init__(self) -> None:
        if self.tables.symbols != self.alphabet.symbols:
            raise ValueError(
                f"tables of {self.tables.symbols} symbols, {self.alphabet} needs "
                f"{self.alphabet.symbols}"
            )
        if not all(1 <= count <= MAX_TILES for count in self.tiles):
            raise ValueError(f"{self.tiles} tiles")
        self.context.check(tables=self.tables.count, symbols=self.tables.symbols)

    @cached_property
    def digest(self) -> int:
        """Stands for the model in the check value of each payload."""
        return zlib.crc32(self.to_bytes())

    def to_bytes(self) -> bytes:
        """The file."""
        context, alphabet = self.context, self.alphabet
        kind = _TABLE if isinstance(context, TableContext) else _CONV
        head = _HEAD.pack(
            _MAGIC,
            _VERSION,
            kind,
            alphabet.low,
            alphabet.count,
            *self.tiles,
            self.tables.count,
            context.channels,
        )
        parts: list[bytes] = [head, _bytes(self.tables.frequencies, "<u2")]
        if isinstance(context, ConvContext):
            parts.append(
                _CONV_HEAD.pack(
                    context.radius, context.shift1, context.shift2, context.biases1.size
                )
            )
            layout = _conv_layout(context.channels, context.radius, context.biases1.size)
        else:
            layout = _table_layout(context.channels)
        parts += [_bytes(getattr(context, name), dtype) for name, dtype, _ in layout]
        data = b"".join(parts)
        return data + _CRC.pack(zlib.crc32(data))

    @classmethod
    def from_bytes(cls, data: bytes) -> "CodingModel":
        """The model of a file. Raises CodecError, whatever comes."""
        try:
            if len(data) < _HEAD.size + _CRC.size or data[:4] != _MAGIC:
                raise CodecError("not a coding model")
            if zlib.crc32(data[: -_CRC.size]) != _CRC.unpack(data[-_CRC.size :])[0]:
                raise CodecError("damaged coding model")
            return cls._parse(_Fields(data[: -_CRC.size]))
        except (ValueError, struct.error) as error:
            raise CodecError(f"coding model: {error}") from None

    @classmethod
    def _parse(cls, fields: "_Fields") -> "CodingModel":
        _, version, kind, low, count, rows, columns, tables, channels = fields.struct(_HEAD)
        if version != _VERSION or kind not in (_TABLE, _CONV):
            raise CodecError(f"coding model of version {version}, kind {kind}")
        alphabet = Alphabet(low=low, count=count)
        frequencies = FrequencyTables(fields.array("<u2", (tables, alphabet.symbols)))
        context: TableContext | ConvContext
        if kind == _TABLE:
            context = TableContext(**fields.arrays(_table_layout(channels)))
        else:
            radius, shift1, shift2, hidden = fields.struct(_CONV_HEAD)
            context = ConvContext(
                symbols=alphabet.symbols,
                radius=radius,
                shift1=shift1,
                shift2=shift2,
                **fields.arrays(_conv_layout(channels, radius, hidden)),
            )
        if fields.left:
            raise CodecError(f"coding model with {fields.left} bytes too many")
        return cls(alphabet=alphabet, context=context, tables=frequencies, tiles=(rows, columns))


_Layout = Iterable[tuple[str, str, tuple[int, ...]]]


def _table_layout(channels: int) -> _Layout:
    return (
        ("centres", "<i2", (channels,)),
        ("references", "<i2", (channels, REFERENCES)),
        ("weights", "<i2", (channels, 2, TAPS)),
        ("biases", "<i4", (channels, 2)),
        ("cells", "u1", (channels, ACTIVITY_BINS, VALUE_BINS)),
    )


def _conv_layout(channels: int, radius: int, hidden: int) -> _Layout:
    return (
        ("centres", "<i2", (channels,)),
        ("weights1", "<i2", (hidden, channels, len(conv_context.taps(radius)))),
        ("biases1", "<i4", (hidden,)),
        ("weights2", "<i2", (2 * channels, hidden)),
        ("biases2", "<i4", (2 * channels,)),
    )


def _bytes(values: NDArray[Any], dtype: str) -> bytes:
    return np.ascontiguousarray(values, dtype=dtype).tobytes()


class _Fields:
    """Reads one field after the other. Raises ValueError at the end."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def struct(self, layout: struct.Struct) -> tuple[Any, ...]:
        return layout.unpack(self._take(layout.size))

    def array(self, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
        size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        values = np.frombuffer(self._take(size), dtype=dtype).reshape(shape)
        return values.astype(values.dtype.newbyteorder("="))

    def arrays(self, layout: _Layout) -> dict[str, Any]:
        return {name: self.array(dtype, shape) for name, dtype, shape in layout}

    def _take(self, size: int) -> bytes:
        if size > self.left:
            raise ValueError("it ends too early")
        self._at += size
        return self._data[self._at - size : self._at]
