"""The parameters of a file that torch wrote before version 1.6, read without torch.

The file is five pickles, one after the other: a magic number, the version 1001, the byte order,
the parameters by name, the keys of their storages; then each storage, its length (u64) before it.
Nothing of a pickle is trusted: three names may appear in it, and none of them runs code.
"""

import pickle
import struct
from collections import OrderedDict
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from headtail_models.zoo.mobilenet_v2_errors import WeightsError

_MAGIC: Final = 0x1950A86A20F9469CFC6C
_VERSION: Final = 1001
_LENGTH: Final = struct.Struct("<Q")
_KINDS: Final = {"FloatStorage": np.dtype("<f4"), "LongStorage": np.dtype("<i8")}

Parameters = dict[str, NDArray[Any]]


class _Storage:
    """A run of numbers that lies behind the pickles; views of it are made once it has been read."""

    def __init__(self, dtype: np.dtype[Any], size: int) -> None:
        self.dtype, self.size = dtype, size
        self.values: NDArray[Any] = np.empty(0, dtype)


class _View:
    """A tensor as the pickle describes it: where in which storage."""

    def __init__(
        self,
        storage: _Storage,
        offset: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        *_: Any,
    ) -> None:
        self._storage, self._offset, self._shape, self._strides = storage, offset, shape, strides

    def array(self) -> NDArray[Any]:
        size = int(np.prod(self._shape, dtype=np.int64))
        plain = tuple(int(step) for step in np.cumprod((1, *self._shape[:0:-1]))[::-1])
        if self._shape and tuple(self._strides) != plain:
            raise ValueError("a tensor that is not laid out in order")
        values = self._storage.values[self._offset : self._offset + size]
        return values.reshape(self._shape)


class _Reader(pickle.Unpickler):
    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file)
        self.storages: dict[str, _Storage] = {}

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _View
        if module == "torch" and name in _KINDS:
            return _KINDS[name]
        raise ValueError(f"it names {module}.{name}")

    def persistent_load(self, pid: Any) -> _Storage:
        _, dtype, key, _, size, _ = pid
        if not isinstance(dtype, np.dtype) or not isinstance(size, int):
            raise ValueError("a storage of an unknown kind")
        return self.storages.setdefault(str(key), _Storage(dtype, size))


def read_parameters(path: Path) -> Parameters:
    """Arrays by name. Raises WeightsError, whatever the file holds."""
    try:
        with path.open("rb") as file:
            return _read(file, path.stat().st_size)
    except (
        pickle.UnpicklingError,
        ArithmeticError,
        AttributeError,
        EOFError,
        LookupError,
        OSError,
        TypeError,
        ValueError,
        struct.error,
    ) as error:
        raise WeightsError(f"{path.name}: {error}") from None


def _read(file: BinaryIO, size_bytes: int) -> Parameters:
    magic, version, system = (_Reader(file).load() for _ in range(3))
    if magic != _MAGIC or version != _VERSION or not system["little_endian"]:
        raise ValueError("not parameters that torch wrote before version 1.6")
    reader = _Reader(file)
    views = reader.load()
    for key in _Reader(file).load():
        storage = reader.storages[str(key)]
        (count,) = _LENGTH.unpack(file.read(_LENGTH.size))
        if count != storage.size or count * storage.dtype.itemsize > size_bytes:
            raise ValueError(f"a storage of {count} numbers, {storage.size} were announced")
        data = file.read(count * storage.dtype.itemsize)
        storage.values = np.frombuffer(data, storage.dtype, count)
    return {str(name): view.array() for name, view in views.items()}
