"""Where the parameters of a model lie: inside its file, or outside (ONNX external data).

A model is worked on with its large parameters in one file `weights.bin`, written once. Every part
that is cut off then points into the same file, and no part holds weights in memory.
"""

import mmap
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
from onnx import TensorProto, numpy_helper

from headtail_fabric.errors import ResourceError
from headtail_fabric.logs import printable
from headtail_models.splitting.errors import ExternalDataError, MalformedGraphError

WEIGHTS: Final = "weights.bin"
INLINE_BYTES: Final = 4096
"""Smaller parameters stay in the graph: shapes and scales are among them, which inference reads."""
ALIGNMENT: Final = 4096
"""A page, so that a runtime can map each parameter straight from the file."""

_CHUNK: Final = 1 << 22
_BITS: Final = {
    TensorProto.FLOAT: 32,
    TensorProto.DOUBLE: 64,
    TensorProto.FLOAT16: 16,
    TensorProto.BFLOAT16: 16,
    TensorProto.INT8: 8,
    TensorProto.UINT8: 8,
    TensorProto.INT16: 16,
    TensorProto.UINT16: 16,
    TensorProto.INT32: 32,
    TensorProto.UINT32: 32,
    TensorProto.INT64: 64,
    TensorProto.UINT64: 64,
    TensorProto.BOOL: 8,
}


def tensors_of(graph: Any) -> Iterator[Any]:
    """Every tensor that a graph holds: initialisers and attributes, those of subgraphs too."""
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            for inner in (attribute.g, *attribute.graphs):
                if inner.ByteSize():
                    yield from tensors_of(inner)


def gather_weights(model: Any, source: Path, target: Path) -> None:
    """Move the model's large parameters into the new file `target`, wherever they were.

    `source` is the folder of the model's file. Small parameters that lay outside come inside.
    Raises ExternalDataError, MalformedGraphError, ResourceError.
    """
    try:
        with target.open("wb") as sink:
            _gather(model, _Places(source), sink, target.name)
    except OSError as error:
        raise ResourceError(f"{printable(str(target))}: {error.strerror}") from None


def embed_weights(model: Any, folder: Path) -> None:
    """Bring every parameter that lies in a file of `folder` into the model."""
    places = _Places(folder)
    for tensor in tensors_of(model.graph):
        if tensor.data_location == TensorProto.EXTERNAL:
            _embed(tensor, bytes(places.view(tensor, _size_bytes(tensor))))


def outside_bytes(model: Any) -> int:
    """How many bytes of parameters lie outside."""
    return sum(
        int(entry.value)
        for tensor in tensors_of(model.graph)
        for entry in tensor.external_data
        if entry.key == "length"
    )


class _Places:
    """The files of weights of one folder. A model may name nothing outside it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._maps: dict[str, memoryview] = {}

    def view(self, tensor: Any, size: int | None) -> memoryview:
        """The bytes of a tensor, mapped and not read."""
        name = printable(tensor.name)
        entries = {entry.key: entry.value for entry in tensor.external_data}
        data = self._file(name, entries.get("location", ""))
        try:
            offset = int(entries.get("offset", 0))
            length = int(entries.get("length", len(data) - offset if size is None else size))
        except ValueError:
            raise ExternalDataError(f"parameter {name!r} has no place in its file") from None
        if offset < 0 or length < 0 or offset + length > len(data):
            raise ExternalDataError(
                f"{entries['location']} has {len(data)} bytes; parameter {name!r} would lie at "
                f"{offset} with {length}"
            )
        if size is not None and length != size:
            raise ExternalDataError(
                f"parameter {name!r} has {length} bytes, its shape needs {size}"
            )
        return data[offset : offset + length]

    def _file(self, name: str, location: str) -> memoryview:
        if location not in self._maps:
            self._maps[location] = self._map(name, location)
        return self._maps[location]

    def _map(self, name: str, location: str) -> memoryview:
        told = f"{printable(location)!r}, the file of parameter {name!r}"
        if not location or "\0" in location:
            raise ExternalDataError(f"{told}: no such name is possible")
        path = (self._folder / location).resolve()
        if not path.is_relative_to(self._folder):
            raise ExternalDataError(f"{told}, lies outside the model's folder")
        try:
            with path.open("rb") as file:
                return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except ValueError:
            return memoryview(b"")  # an empty file can't be mapped
        except OSError as error:
            raise ExternalDataError(f"{told}: {error.strerror}") from None


def _size_bytes(tensor: Any) -> int | None:
    """None for a type whose values have no fixed size here, such as text or packed halves."""
    bits = _BITS.get(tensor.data_type)
    return None if bits is None else prod(tensor.dims) * bits // 8


def _raw(tensor: Any) -> bytes:
    if tensor.HasField("raw_data"):
        return bytes(tensor.raw_data)
    values = numpy_helper.to_array(tensor)
    return bytes(np.ascontiguousarray(values, values.dtype.newbyteorder("<")).tobytes())


def _embed(tensor: Any, data: bytes) -> None:
    del tensor.external_data[:]
    tensor.data_location = TensorProto.DEFAULT
    tensor.raw_data = data


def _gather(model: Any, places: _Places, sink: IO[bytes], location: str) -> None:
    for tensor in tensors_of(model.graph):
        size = _size_bytes(tensor)
        if tensor.data_location == TensorProto.EXTERNAL:
            data = places.view(tensor, size)
            if size is not None and size <= INLINE_BYTES:
                _embed(tensor, bytes(data))
                continue
        elif size is None or size <= INLINE_BYTES:
            continue
        else:
            data = memoryview(_raw(tensor))
            if len(data) != size:
                raise MalformedGraphError(
                    f"parameter {printable(tensor.name)!r} has {len(data)} bytes, not {size}"
                )
        _append(sink, data, tensor, location)


def _append(sink: IO[bytes], data: memoryview, tensor: Any, location: str) -> None:
    sink.write(b"\0" * (-sink.tell() % ALIGNMENT))
    offset = sink.tell()
    for start in range(0, len(data), _CHUNK):
        sink.write(data[start : start + _CHUNK])
    bare = TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
    bare.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", len(data))):
        bare.external_data.add(key=key, value=str(value))
    tensor.CopyFrom(bare)
