"""The tensor's own bytes, little-endian, C order."""

from math import prod
from typing import Final

import numpy as np

from headtail_fabric.codec.base import DTYPES, Array, CodecError
from headtail_fabric.wire import Buffer, DType, Frames


class RawCodec:
    """No compression, no copy: encoding and decoding are views."""

    id: Final = "raw"

    def __init__(self, dtype: DType) -> None:
        self._dtype = DTYPES[dtype]

    def encoded_bytes(self, shape: tuple[int, ...]) -> int:
        """Exact size of the payload for a tensor of `shape`."""
        return prod(shape) * self._dtype.itemsize

    def encode(self, tensor: Array) -> Buffer:
        return np.ascontiguousarray(tensor, dtype=self._dtype).reshape(-1).view(np.uint8).data

    def decode(self, payload: Buffer, shape: tuple[int, ...]) -> Array:
        size, expected = memoryview(payload).nbytes, self.encoded_bytes(shape)
        if size != expected:
            raise CodecError(f"raw payload of {size} bytes, shape {shape} needs {expected}")
        return np.frombuffer(payload, dtype=self._dtype).reshape(shape)

    def decode_all(self, payloads: Frames, shape: tuple[int, ...]) -> Array:
        return np.concatenate([self.decode(payload, shape) for payload in payloads])
