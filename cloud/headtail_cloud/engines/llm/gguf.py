"""Reads GGUF, the file format that llama.cpp defines (version 3 of its specification).

    magic, version, counts | metadata: key, type, value | tensors: name, sizes, type, offset | data

Numbers are little-endian. Sizes are written innermost first. Quantised types are blocks of 32
values along a row:

    Q8_0    scale f16, 32 x int8                    scale * q
    Q4_0    scale f16, 16 bytes                     scale * (q - 8)
    Q4_1    scale f16, least f16, 16 bytes          scale * q + least

A byte of the latter two holds value i in its low half and value i + 16 in its high half.
"""

import mmap
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

import numpy as np
from numpy.typing import NDArray

from headtail_fabric.errors import PeerError

Floats = NDArray[np.float32]
Value = int | float | bool | str | list["Value"]

_MAGIC: Final = b"GGUF"
_VERSIONS: Final = (2, 3)
_MAX_ENTRIES: Final = 1 << 20
_MAX_STRING: Final = 1 << 20
_MAX_AXES: Final = 4
_BLOCK: Final = 32
_STRING: Final = 8
_ARRAY: Final = 9
_SCALARS: Final = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True))


class BadGgufError(PeerError):
    """A GGUF file is damaged, or holds a type of tensor that can't be read here. Take another copy
    of it, or one in F32, F16, Q8_0, Q4_0 or Q4_1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    shape: tuple[int, ...]
    kind: int
    offset: int


class GgufFile:
    """An open file; `metadata` by key. Raises BadGgufError."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            try:
                self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            except ValueError:
                raise BadGgufError(f"{path.name} is empty") from None
        reader = _Reader(self._data, path.name)
        self._name = path.name
        if reader.take(4) != _MAGIC or reader.number("I") not in _VERSIONS:
            raise BadGgufError(f"{path.name} is not a GGUF file that can be read here")
        tensors, pairs = reader.count(), reader.count()
        self.metadata: dict[str, Value] = {}
        for _ in range(pairs):
            key = reader.string()
            self.metadata[key] = reader.value(reader.number("I"))
        self._entries = dict(reader.entry() for _ in range(tensors))
        alignment = self.metadata.get("general.alignment", _BLOCK)
        if not isinstance(alignment, int) or not 0 < alignment <= 4096:
            raise BadGgufError(f"{path.name}: alignment {alignment!r}")
        self._start = -(-reader.at // alignment) * alignment

    def __repr__(self) -> str:
        return f"<GgufFile {self._name}, {len(self._entries)} tensors>"

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def tensor(self, name: str) -> Floats:
        """Outermost axis first. Raises BadGgufError."""
        entry = self._entries.get(name)
        if entry is None:
            raise BadGgufError(f"{self._name} has no tensor {name!r}")
        if entry.kind not in _KINDS:
            raise BadGgufError(f"{self._name}: {name} is of type {entry.kind}")
        values, size, unpack = _KINDS[entry.kind]
        count = int(np.prod(entry.shape))
        start = self._start + entry.offset
        end = start + count // values * size
        if count % values or end > len(self._data):
            raise BadGgufError(f"{self._name}: {name} is cut off")
        raw = np.frombuffer(self._data, np.uint8, end - start, start)
        return unpack(raw.reshape(-1, size)).reshape(entry.shape)


class _Reader:
    """A place in the file."""

    def __init__(self, data: mmap.mmap, name: str) -> None:
        self._data = data
        self._name = name
        self.at = 0

    def take(self, size: int) -> bytes:
        if self.at + size > len(self._data):
            raise BadGgufError(f"{self._name} is cut off")
        self.at += size
        return self._data[self.at - size : self.at]

    def number(self, code: str) -> int:
        return cast("int", struct.unpack(f"<{code}", self.take(struct.calcsize(f"<{code}")))[0])

    def count(self, limit: int = _MAX_ENTRIES) -> int:
        count = self.number("Q")
        if count > limit:
            raise BadGgufError(f"{self._name}: {count} of something")
        return count

    def string(self) -> str:
        try:
            return self.take(self.count(_MAX_STRING)).decode()
        except UnicodeDecodeError:
            raise BadGgufError(f"{self._name}: a text that is not UTF-8") from None

    def value(self, kind: int) -> Value:
        if kind == _STRING:
            return self.string()
        if kind == _ARRAY:
            inner = self.number("I")
            if inner == _ARRAY:
                raise BadGgufError(f"{self._name}: an array of arrays")
            return [self.value(inner) for _ in range(self.count())]
        if kind not in _SCALARS:
            raise BadGgufError(f"{self._name}: a value of type {kind}")
        return self.number(_SCALARS[kind])

    def entry(self) -> tuple[str, _Entry]:
        name = self.string()
        axes = self.number("I")
        if not 1 <= axes <= _MAX_AXES:
            raise BadGgufError(f"{self._name}: {name} has {axes} axes")
        shape = tuple(self.count(1 << 32) for _ in range(axes))
        entry = _Entry(shape=shape[::-1], kind=self.number("I"), offset=self.count(1 << 48))
        return name, entry


def _f32(raw: NDArray[np.uint8]) -> Floats:
    return raw.view("<f4")


def _f16(raw: NDArray[np.uint8]) -> Floats:
    return raw.view("<f2").astype(np.float32)


def _q8_0(raw: NDArray[np.uint8]) -> Floats:
    return _f16(raw[:, :2].copy()) * raw[:, 2:].view(np.int8)


def _q4_0(raw: NDArray[np.uint8]) -> Floats:
    return _f16(raw[:, :2].copy()) * (_halves(raw[:, 2:]) - np.float32(8))


def _q4_1(raw: NDArray[np.uint8]) -> Floats:
    return _f16(raw[:, :2].copy()) * _halves(raw[:, 4:]) + _f16(raw[:, 2:4].copy())


def _halves(packed: NDArray[np.uint8]) -> Floats:
    return np.concatenate((packed & 15, packed >> 4), axis=1).astype(np.float32)


_KINDS: Final[dict[int, tuple[int, int, Callable[[NDArray[np.uint8]], Floats]]]] = {
    0: (1, 4, _f32),
    1: (1, 2, _f16),
    2: (_BLOCK, 18, _q4_0),
    3: (_BLOCK, 20, _q4_1),
    8: (_BLOCK, 34, _q8_0),
}
"""By type number: values of a block, its bytes, how to unpack blocks (n, bytes)."""
