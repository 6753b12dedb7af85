"""Static affine quantisation to 8, 4 or 2 bits a value."""

from math import prod
from typing import Final

import numpy as np

from headtail_fabric.codec.base import Array, CodecError
from headtail_fabric.codec.quantiser import Quantiser
from headtail_fabric.wire import Buffer, Frames

CHANNELS_LAST: Final = "-nhwc"


class AffineCodec:
    """Levels of a `Quantiser`, one, two or four a byte, the first value in the lowest bits.

    What is left of the last byte is zero. With `channels_last` they lie in the order N x H x W x C,
    as microcontrollers have them; tensors have their channels on axis 1 all the same.
    """

    def __init__(self, *, bits: int, quantiser: Quantiser, channels_last: bool = False) -> None:
        if bits not in (2, 4, 8):
            raise ValueError(f"{bits} bits a value, only 2, 4 and 8 can be packed")
        self._bits = bits
        self._each = 8 // bits
        self._quantiser = quantiser
        self._channels_last = channels_last

    @property
    def id(self) -> str:
        return f"q{self._bits}{CHANNELS_LAST if self._channels_last else ''}"

    def encoded_bytes(self, shape: tuple[int, ...]) -> int:
        """Exact size of the payload for a tensor of `shape`."""
        return -(-prod(shape) // self._each)

    def encode(self, tensor: Array) -> Buffer:
        if tensor.ndim < 2 or tensor.shape[1] != self._quantiser.channels:
            raise ValueError(
                f"tensor of shape {tensor.shape}, the table has {self._quantiser.channels} channels"
            )
        levels = self._quantiser.levels(tensor, self._bits)
        if self._channels_last:
            levels = np.moveaxis(levels, 1, -1)
        levels = levels.reshape(-1)
        if self._bits == 8:
            return levels.data
        if lacking := -levels.size % self._each:
            levels = np.append(levels, np.zeros(lacking, dtype=np.uint8))
        packed = levels[0 :: self._each].copy()
        for place in range(1, self._each):
            packed |= levels[place :: self._each] << (place * self._bits)
        return packed.data

    def decode(self, payload: Buffer, shape: tuple[int, ...]) -> Array:
        self._check(payload, shape)
        if len(shape) < 2 or shape[1] != self._quantiser.channels:
            raise CodecError(
                f"shape {shape} announced, the table has {self._quantiser.channels} channels"
            )
        packed = np.frombuffer(payload, dtype=np.uint8)
        return self._quantiser.values(self._unpack(packed, shape), self._bits)

    def decode_all(self, payloads: Frames, shape: tuple[int, ...]) -> Array:
        if prod(shape) % self._each:  # then each ends in the middle of a byte
            return np.concatenate([self.decode(payload, shape) for payload in payloads])
        for payload in payloads:
            self._check(payload, shape)
        return self.decode(b"".join(payloads), (len(payloads) * shape[0], *shape[1:]))

    def _check(self, payload: Buffer, shape: tuple[int, ...]) -> None:
        size, expected = memoryview(payload).nbytes, self.encoded_bytes(shape)
        if size != expected:
            raise CodecError(f"{self.id} payload of {size} bytes, shape {shape} needs {expected}")

    def _unpack(
        self, packed: "np.ndarray[tuple[int], np.dtype[np.uint8]]", shape: tuple[int, ...]
    ) -> "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]":
        if self._bits < 8:
            levels = np.empty(self._each * packed.size, dtype=np.uint8)
            for place in range(self._each):
                one = levels[place :: self._each]
                np.right_shift(packed, place * self._bits, out=one)
                np.bitwise_and(one, (1 << self._bits) - 1, out=one)
            packed = levels[: prod(shape)]
        if not self._channels_last:
            return packed.reshape(shape)
        return np.moveaxis(packed.reshape(shape[0], *shape[2:], shape[1]), -1, 1)
