"""What is sealed: tensors and their payloads as one string of bytes, padded if wanted.

    offset 0     size of the description, 4 bytes big-endian
    4            description: msgpack [[tensor, ...], [payload size, ...]]
    then         each payload, at the next multiple of 16
    then         zeros up to a multiple of the padding

A payload is handed on as a view, aligned as any tensor wants it.
"""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from headtail_fabric import wire
from headtail_fabric.seal.errors import TamperedError
from headtail_fabric.wire import MAX_TENSOR_BYTES, MAX_TENSORS, Buffer, Frames, TensorInfo, Tensors

_SIZE_BYTES: Final = 4
_ALIGN: Final = 16


class _Description(
    msgspec.Struct, frozen=True, array_like=True, kw_only=True, forbid_unknown_fields=True
):
    tensors: Tensors
    sizes: Annotated[
        tuple[Annotated[int, Meta(ge=0, le=MAX_TENSOR_BYTES)], ...], Meta(max_length=MAX_TENSORS)
    ]


_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[_Description] = msgspec.msgpack.Decoder(_Description)


def join(tensors: Sequence[TensorInfo], payloads: Frames, *, pad_bytes: int) -> bytearray:
    """The content of a message; its size is a multiple of `pad_bytes`, if that is not 0."""
    description, starts, end = _plan(tensors, payloads)
    content = bytearray(_up(end, pad_bytes))
    content[:_SIZE_BYTES] = len(description).to_bytes(_SIZE_BYTES)
    content[_SIZE_BYTES : _SIZE_BYTES + len(description)] = description
    for start, payload in zip(starts, payloads, strict=True):
        if size := _size(payload):  # an empty view has no bytes to be cast to
            content[start : start + size] = memoryview(payload).cast("B")
    return content


def joined_size(tensors: Sequence[TensorInfo], payloads: Frames, *, pad_bytes: int) -> int:
    """How long `join`'s content is."""
    return _up(_plan(tensors, payloads)[2], pad_bytes)


def part(content: Buffer) -> tuple[tuple[TensorInfo, ...], Frames]:
    """The tensors and views of their payloads. Raises TamperedError: only a sender that holds the
    keys, and builds its content wrongly, gets here; TooLargeError as the wire does."""
    view = memoryview(content)
    if len(view) < _SIZE_BYTES:
        raise TamperedError("sealed content without a description")
    end = _SIZE_BYTES + int.from_bytes(view[:_SIZE_BYTES])
    try:
        description = _decoder.decode(view[_SIZE_BYTES:end])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise TamperedError(f"malformed sealed content: {error}") from None
    starts, size = _places(end, description.sizes)
    if size > len(view) or len(description.sizes) != len(description.tensors):
        raise TamperedError("sealed content shorter than it says")
    payloads = [
        view[start : start + length]
        for start, length in zip(starts, description.sizes, strict=True)
    ]
    wire.check_tensors(description.tensors, payloads)
    return description.tensors, payloads


def _plan(tensors: Sequence[TensorInfo], payloads: Frames) -> tuple[bytes, list[int], int]:
    sizes = tuple(_size(payload) for payload in payloads)
    description = _encoder.encode(_Description(tensors=tuple(tensors), sizes=sizes))
    starts, size = _places(_SIZE_BYTES + len(description), sizes)
    return description, starts, size


def _places(end: int, sizes: Sequence[int]) -> tuple[list[int], int]:
    """Where each payload starts behind `end`, and the end of all."""
    starts = []
    for size in sizes:
        start = _up(end, _ALIGN)
        starts.append(start)
        end = start + size
    return starts, end


def _up(size: int, multiple: int) -> int:
    return size if multiple == 0 else -(-size // multiple) * multiple


def _size(payload: Buffer) -> int:
    return payload.nbytes if isinstance(payload, memoryview) else len(payload)
