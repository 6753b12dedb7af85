"""What a crossing tensor, or the picture itself, comes to in bytes."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any, Final

import cv2
import numpy as np
from numpy.typing import NDArray

from headtail_fabric.codec import Quantiser, TensorCodec, codec_for
from headtail_fabric.codec.base import CODES, Array
from headtail_fabric.wire import DType
from headtail_models.planner.costs import PayloadCost
from headtail_models.planner.timing import median_s
from headtail_models.splitting.calibration import BITS, can_quantise, clipped_quantisers
from headtail_models.splitting.tensors import Tensor

BASES: Final = ("raw", "q8", "q4")
_REPEATS: Final = 3

Frame = Mapping[str, Array]
"""The tensors that cross for one frame, by name."""


def static_payloads(sent: Sequence[Tensor]) -> tuple[PayloadCost, ...]:
    """Sizes that follow from the shapes alone. Quantised tensors go without zstd here."""
    return tuple(
        PayloadCost(codec=base, mean_bytes=sum(_static_bytes(one, base) for one in sent))
        for base in _bases(sent)
    )


def measured_payloads(
    sent: Sequence[Tensor], frames: Sequence[Frame], *, real: bool
) -> tuple[PayloadCost, ...]:
    """Every codec on what crossed for each frame, its ranges found on the same frames.

    `real` False: the frames came of random input; then zstd is left out, which would measure the
    noise. A tensor that can't be quantised goes raw beside those that can.
    """
    tables = {
        one.name: clipped_quantisers([frame[one.name] for frame in frames])
        for one in sent
        if can_quantise(one.dtype, one.shape)
    }
    bases = [base for base in BASES if base == "raw" or any(base in t for t in tables.values())]
    codecs = [base + wrapper for base in bases for wrapper in (("", "+zstd") if real else ("",))]
    return tuple(
        _measure(
            codec, [_coders(codec, one, tables.get(one.name, {})) for one in sent], frames, real
        )
        for codec in codecs
    )


def picture_payloads(pictures: Sequence[NDArray[np.uint8]], quality: int) -> Iterator[PayloadCost]:
    """The native pictures as JPEG."""
    if not pictures:
        return
    settings = [int(cv2.IMWRITE_JPEG_QUALITY), quality]
    coded = [cv2.imencode(".jpg", picture, settings)[1] for picture in pictures]
    first, code = pictures[0], coded[0]
    yield PayloadCost(
        codec=f"jpeg{quality}",
        mean_bytes=fmean(len(one) for one in coded),
        encode_s=median_s(lambda: cv2.imencode(".jpg", first, settings), repeats=_REPEATS),
        decode_s=median_s(lambda: cv2.imdecode(code, cv2.IMREAD_COLOR), repeats=_REPEATS),
        samples=len(pictures),
    )


class _Coder:
    """One tensor of a cut in one codec. What the wire has no type for goes as bytes."""

    def __init__(self, name: str, codec: TensorCodec, *, as_bytes: bool) -> None:
        self.name = name
        self._codec = codec
        self._as_bytes = as_bytes

    def encode(self, frame: Frame) -> Any:
        return self._codec.encode(self._plain(frame))

    def decode(self, payload: Any, frame: Frame) -> Array:
        return self._codec.decode(payload, self._plain(frame).shape)

    def _plain(self, frame: Frame) -> Array:
        tensor = np.ascontiguousarray(frame[self.name])
        return tensor.reshape(-1).view(np.uint8) if self._as_bytes else tensor


def _coders(codec: str, tensor: Tensor, table: Mapping[str, Quantiser]) -> _Coder:
    base, plus, wrapper = codec.partition("+")
    if base != "raw" and base not in table:
        base = "raw"
    dtype = CODES.get(np.dtype(tensor.dtype))
    made = codec_for(
        base + plus + wrapper,
        dtype=DType.UINT8 if dtype is None else dtype,
        quantiser=table.get(base),
    )
    return _Coder(tensor.name, made, as_bytes=dtype is None)


def _measure(
    codec: str, coders: Sequence[_Coder], frames: Sequence[Frame], real: bool
) -> PayloadCost:
    sizes = [sum(memoryview(one.encode(frame)).nbytes for one in coders) for frame in frames]
    frame = frames[0]
    coded = [one.encode(frame) for one in coders]

    def encode() -> None:
        for one in coders:
            one.encode(frame)

    def decode() -> None:
        for one, payload in zip(coders, coded, strict=True):
            one.decode(payload, frame)

    return PayloadCost(
        codec=codec,
        mean_bytes=fmean(sizes),
        encode_s=median_s(encode, repeats=_REPEATS, warm_up=1),
        decode_s=median_s(decode, repeats=_REPEATS, warm_up=1),
        samples=len(frames) if real else 0,
    )


def _bases(sent: Sequence[Tensor]) -> Iterator[str]:
    yield "raw"
    if any(can_quantise(one.dtype, one.shape) for one in sent):
        yield from BITS


def _static_bytes(tensor: Tensor, base: str) -> int:
    if base == "raw" or not can_quantise(tensor.dtype, tensor.shape):
        return tensor.size_bytes
    values = tensor.size_bytes // np.dtype(tensor.dtype).itemsize
    return (values * BITS[base] + 7) // 8
