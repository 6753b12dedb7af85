"""The codec seam and the table of codecs."""

from typing import Any, Final, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from headtail_fabric.errors import PeerError
from headtail_fabric.wire import Buffer, DType, Frames

Array = NDArray[Any]

DTYPES: Final[dict[DType, np.dtype[Any]]] = {
    DType.FLOAT32: np.dtype("<f4"),
    DType.FLOAT16: np.dtype("<f2"),
    DType.UINT8: np.dtype("u1"),
    DType.INT8: np.dtype("i1"),
    DType.INT32: np.dtype("<i4"),
    DType.INT64: np.dtype("<i8"),
}
CODES: Final[dict[np.dtype[Any], DType]] = {dtype: code for code, dtype in DTYPES.items()}


class CodecError(PeerError):
    """A payload does not decode to the tensor that its header announces. If both sides are
    Headtail, check that they run the same bundle; else the payload was damaged or forged."""


class TensorCodec(Protocol):
    """One way to write a tensor as bytes. `decode(encode(t), t.shape)` has t's shape and dtype."""

    @property
    def id(self) -> str:
        """The codec's name on the wire, such as `q8+zstd`."""
        ...

    def encode(self, tensor: Array) -> Buffer:
        """Bytes of `tensor`; may be a view of it, so don't change it until it has been sent."""
        ...

    def decode(self, payload: Buffer, shape: tuple[int, ...]) -> Array:
        """The tensor; may be a read-only view of `payload`. Raises CodecError, whatever comes."""
        ...


@runtime_checkable
class BatchCodec(TensorCodec, Protocol):
    """A codec for which many small tensors are decoded together for less than one by one."""

    def decode_all(self, payloads: Frames, shape: tuple[int, ...]) -> Array:
        """The tensors of some payloads, each of `shape`, joined on the first axis.

        Raises CodecError when any of them is bad.
        """
        ...
