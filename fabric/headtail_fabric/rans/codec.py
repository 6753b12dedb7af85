"""The codecs `rans`, `rans-...`: a float tensor, quantised by static scales and entropy-coded."""

import numpy as np

from headtail_fabric.codec.base import Array, CodecError
from headtail_fabric.rans.coder import LevelCoder
from headtail_fabric.rans.levels import LevelQuantiser
from headtail_fabric.rans.model import CodingModel
from headtail_fabric.wire import Buffer, Frames


class RansCodec:
    """Float32 tensors with channels on axis 1. Not thread-safe: one object a thread.

    A payload has at most `max_bytes(shape)`, whatever the tensor. Raises ValueError when quantiser
    and model don't belong together. `codec_id` tells it from others at the same cut, that are
    coarser or finer; `native` is `LevelCoder`'s.
    """

    def __init__(
        self,
        quantiser: LevelQuantiser,
        model: CodingModel,
        *,
        codec_id: str = "rans",
        native: bool = True,
    ) -> None:
        if quantiser.alphabet != model.alphabet or quantiser.channels != model.context.channels:
            raise ValueError(
                f"the quantiser has {quantiser.channels} channels and {quantiser.alphabet}, the "
                f"model {model.context.channels} and {model.alphabet}"
            )
        self.id = codec_id
        self._quantiser = quantiser
        self._coder = LevelCoder(model, native=native)

    def max_bytes(self, shape: tuple[int, ...]) -> int:
        """What no payload for a tensor of `shape` exceeds."""
        return self._coder.max_bytes(shape)

    def encode(self, tensor: Array) -> Buffer:
        """Raises ValueError for a tensor of the wrong shape."""
        if tensor.ndim < 2 or tensor.shape[1] != self._quantiser.channels:
            raise ValueError(
                f"tensor of shape {tensor.shape}, the codec has {self._quantiser.channels} channels"
            )
        values = np.ascontiguousarray(tensor, dtype=np.float32)
        return self._coder.encode(self._quantiser.levels(values))

    def decode(self, payload: Buffer, shape: tuple[int, ...]) -> Array:
        return self.decode_all([payload], shape)

    def decode_all(self, payloads: Frames, shape: tuple[int, ...]) -> Array:
        if len(shape) < 2 or shape[1] != self._quantiser.channels:
            raise CodecError(
                f"shape {shape} announced, the codec has {self._quantiser.channels} channels"
            )
        return self._quantiser.values(self._coder.decode_all(payloads, shape))
