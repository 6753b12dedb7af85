"""What the bodies of frames share: msgpack arrays with a limit on every length."""

from functools import cache
from typing import Annotated, Final, TypeVar

import msgspec
from msgspec import Meta

from headtail_prifi.core.errors import FrameError
from headtail_prifi.core.header import HEADER_BYTES, MAX_ROUND, Buffer, Header
from headtail_prifi.crypto.signature import SIGNATURE_BYTES

MAX_BODY_BYTES: Final = 4 * 1024 * 1024

Hash = Annotated[bytes, Meta(min_length=32, max_length=32)]
Signature = Annotated[bytes, Meta(min_length=SIGNATURE_BYTES, max_length=SIGNATURE_BYTES)]
Round = Annotated[int, Meta(ge=0, le=MAX_ROUND)]


class Body(msgspec.Struct, frozen=True, array_like=True, kw_only=True, forbid_unknown_fields=True):
    """The fields in order, nothing left out, nothing more."""


B = TypeVar("B", bound=Body)

_encoder: Final = msgspec.msgpack.Encoder()


@cache
def _decoder(kind: type[B]) -> msgspec.msgpack.Decoder[B]:
    return msgspec.msgpack.Decoder(kind)


def encode_body(body: Body) -> bytes:
    """The bytes of a body, always the same for the same fields."""
    return _encoder.encode(body)


def decode_body(kind: type[B], data: Buffer) -> B:
    """The body of this type; FrameError for everything else, whatever the bytes."""
    if len(data) > MAX_BODY_BYTES:
        raise FrameError(f"a body of {len(data)} bytes")
    try:
        body: B = _decoder(kind).decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise FrameError(f"malformed {kind.__name__}: {error}") from None
    return body


def frame_of(header: Header, body: Body) -> bytes:
    """A frame without a signature."""
    return header.encode() + encode_body(body)


def split_signed(frame: Buffer) -> tuple[memoryview, bytes]:
    """What a signed frame signs (header and body) and the signature; FrameError if too short."""
    if len(frame) < HEADER_BYTES + SIGNATURE_BYTES:
        raise FrameError(f"a signed frame of {len(frame)} bytes")
    view = memoryview(frame)
    return view[:-SIGNATURE_BYTES], bytes(view[-SIGNATURE_BYTES:])
