"""Static affine quantisation to 8 or 4 bits a value."""

import numpy as np

from headtail_fabric.codec.base import Array, CodecError
from headtail_fabric.codec.quantiser import Quantiser
from headtail_fabric.wire import Buffer


class AffineCodec:
    """Levels of a `Quantiser`, one byte each or two a byte (first value in the low half).

    An odd number of 4-bit values is padded with one zero half.
    """

    def __init__(self, *, bits: int, quantiser: Quantiser) -> None:
        if bits not in (4, 8):
            raise ValueError(f"{bits} bits a value, only 4 and 8 can be packed")
        self._bits = bits
        self._quantiser = quantiser

    @property
    def id(self) -> str:
        return f"q{self._bits}"

    def encoded_bytes(self, shape: tuple[int, ...]) -> int:
        """Exact size of the payload for a tensor of `shape`."""
        values = int(np.prod(shape, dtype=np.int64))
        return values if self._bits == 8 else (values + 1) // 2

    def encode(self, tensor: Array) -> Buffer:
        if tensor.ndim < 2 or tensor.shape[1] != self._quantiser.channels:
            raise ValueError(
                f"tensor of shape {tensor.shape}, the table has {self._quantiser.channels} channels"
            )
        levels = self._quantiser.levels(tensor, self._bits).reshape(-1)
        if self._bits == 8:
            return levels.data
        if levels.size % 2:
            levels = np.append(levels, np.uint8(0))
        return (levels[0::2] | (levels[1::2] << 4)).data

    def decode(self, payload: Buffer, shape: tuple[int, ...]) -> Array:
        size, expected = memoryview(payload).nbytes, self.encoded_bytes(shape)
        if size != expected:
            raise CodecError(f"{self.id} payload of {size} bytes, shape {shape} needs {expected}")
        if len(shape) < 2 or shape[1] != self._quantiser.channels:
            raise CodecError(
                f"shape {shape} announced, the table has {self._quantiser.channels} channels"
            )
        packed = np.frombuffer(payload, dtype=np.uint8)
        return self._quantiser.values(self._unpack(packed, shape), self._bits)

    def _unpack(
        self, packed: "np.ndarray[tuple[int], np.dtype[np.uint8]]", shape: tuple[int, ...]
    ) -> "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]":
        if self._bits == 8:
            return packed.reshape(shape)
        levels = np.empty(2 * packed.size, dtype=np.uint8)
        np.bitwise_and(packed, 15, out=levels[0::2])
        np.right_shift(packed, 4, out=levels[1::2])
        return levels[: int(np.prod(shape, dtype=np.int64))].reshape(shape)
