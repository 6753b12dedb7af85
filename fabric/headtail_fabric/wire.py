"""The wire format, version 1: multipart messages of one small header and raw tensor frames.

`fabric/README.md` documents every byte; `tests/vectors/wire-v1.json` freezes it.

    frame 0      b"HT", version (1 byte), 0 (reserved), msgpack array [tag, field, ...]
    frame 1..n   one payload per `TensorInfo` of the header (or one bundle part), as it is

The set of tags is closed. Payload frames are passed through as the buffers they came in, so a
tensor is never copied between the socket and its codec.
"""

from collections.abc import Sequence
from enum import IntEnum
from math import prod
from typing import Annotated, ClassVar, Final, NoReturn

import msgspec
from msgspec import Meta

from headtail_fabric.errors import PeerError

MAGIC: Final = b"HT"
VERSION: Final = 1
PREFIX: Final = MAGIC + bytes([VERSION, 0])

MAX_HEADER_BYTES: Final = 16 * 1024
MAX_TENSORS: Final = 16
MAX_DIMENSIONS: Final = 6
MAX_TENSOR_BYTES: Final = 64 * 1024 * 1024
MAX_PART_BYTES: Final = 256 * 1024

Buffer = bytes | bytearray | memoryview
Frames = Sequence[Buffer]

Digest = Annotated[bytes, Meta(min_length=32, max_length=32)]
SessionId = Annotated[bytes, Meta(min_length=16, max_length=16)]
RequestId = Annotated[int, Meta(ge=1, le=2**63 - 1)]
Name = Annotated[str, Meta(max_length=64)]
Text = Annotated[str, Meta(max_length=512)]
MAX_MILLIS: Final = 86_400_000
Millis = Annotated[int, Meta(ge=0, le=MAX_MILLIS)]
Micros = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Count = Annotated[int, Meta(ge=0, lt=2**31)]
Size = Annotated[int, Meta(ge=0, lt=2**40)]
Dim = Annotated[int, Meta(ge=0, le=MAX_TENSOR_BYTES)]


class WireError(PeerError):
    """A message that breaks the wire format arrived. It costs its sender the connection; check
    that both sides run the same version of Headtail."""


class UnknownVersionError(WireError):
    """The other side speaks another version of the wire format. Upgrade the older side."""


class UnknownTagError(WireError):
    """The other side sent a kind of message that this version does not know. Upgrade this side."""


class TooLargeError(WireError):
    """A message exceeds a limit of the wire format. Send smaller tensors or raise the cut."""


class ErrorCode(IntEnum):
    """Why a request, or with id 0 a whole connection, was refused."""

    BAD_MESSAGE = 1
    NO_SESSION = 2
    NOT_ALLOWED = 3
    UNKNOWN_BUNDLE = 4
    UNKNOWN_CUT = 5
    BAD_PAYLOAD = 6
    EXPIRED = 7
    INTERNAL = 8
    SHUTTING_DOWN = 9
    BAD_SEAL = 10


class DType(IntEnum):
    """Element types that may cross the wire."""

    FLOAT32 = 1
    FLOAT16 = 2
    UINT8 = 3
    INT8 = 4
    INT32 = 5
    INT64 = 6


class _Part(msgspec.Struct, frozen=True, array_like=True, kw_only=True, forbid_unknown_fields=True):
    pass


class TensorInfo(_Part, frozen=True, kw_only=True):
    """What a payload frame holds once decoded.

    `codec` is the codec's id (`headtail_fabric.codec`), `quantiser` names the table in the bundle
    that the codec needs, or is empty.
    """

    name: Name
    dtype: DType
    shape: Annotated[tuple[Dim, ...], Meta(max_length=MAX_DIMENSIONS)]
    codec: Annotated[str, Meta(max_length=32)]
    quantiser: Name = ""

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)


Tensors = Annotated[tuple[TensorInfo, ...], Meta(max_length=MAX_TENSORS)]
Digests = Annotated[tuple[Digest, ...], Meta(max_length=256)]


class Timings(_Part, frozen=True, kw_only=True):
    """Where the server spent the time of one request, in microseconds of its own clock.

    `resident_us` runs from the header's arrival to the reply's departure: what remains of the
    client's round trip is the wire.
    """

    queue_us: Micros = 0
    decode_us: Micros = 0
    compute_us: Micros = 0
    post_us: Micros = 0
    resident_us: Micros = 0


class Hints(_Part, frozen=True, kw_only=True):
    """What a client may want to know of the server's load before it sends the next request."""

    queue_ms: Millis = 0
    batch: Count = 0
    active: Count = 0


class _Message(
    msgspec.Struct, frozen=True, array_like=True, kw_only=True, forbid_unknown_fields=True
):
    payloads: ClassVar[int] = 0

    @property
    def payload_count(self) -> int:
        """How many payload frames follow the header."""
        return type(self).payloads


class Hello(_Message, frozen=True, kw_only=True, tag=1):
    """Client: opens or resumes the session `session`; repeated after each reconnect."""

    session: SessionId
    name: Name
    agent: Name
    bundles: Digests = ()
    can_push: bool = False


class Offer(_Message, frozen=True, kw_only=True, tag=2):
    """Server: accepts a session. `boot` is new at each start of the server: when it changes,
    whatever was in flight must be sent again."""

    session: SessionId
    boot: SessionId
    name: Name
    agent: Name
    bundles: Digests
    window: Annotated[int, Meta(ge=1, le=1024)]
    heartbeat_ms: Annotated[int, Meta(ge=10, le=600_000)]


class Request(_Message, frozen=True, kw_only=True, tag=3):
    """Client: run the rest of a bundle from `cut` on; `input` stands for the picture itself.

    `remaining_ms` is what is left of the deadline when the message leaves, never a time of day.
    A repeated `id` in one session is the same request (`attempt` counts from 1).
    """

    id: RequestId
    bundle: Digest
    cut: Name
    remaining_ms: Millis
    attempt: Annotated[int, Meta(ge=1, le=255)]
    tensors: Tensors

    @property
    def payload_count(self) -> int:
        return len(self.tensors)


class Result(_Message, frozen=True, kw_only=True, tag=4):
    """Server: the answer to request `id`."""

    id: RequestId
    tensors: Tensors
    timings: Timings
    hints: Hints

    @property
    def payload_count(self) -> int:
        return len(self.tensors)


class Busy(_Message, frozen=True, kw_only=True, tag=5):
    """Server: request `id` was not accepted; it may be tried again after `retry_after_ms`."""

    id: RequestId
    retry_after_ms: Millis
    hints: Hints


class ErrorReply(_Message, frozen=True, kw_only=True, tag=6):
    """Server: request `id` failed for good; with id 0 the whole connection is meant."""

    id: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    code: ErrorCode
    message: Text


class Ping(_Message, frozen=True, kw_only=True, tag=7):
    """Either side: a heartbeat that wants a `Pong` with the same nonce."""

    nonce: Annotated[int, Meta(ge=0, le=2**63 - 1)]


class Pong(_Message, frozen=True, kw_only=True, tag=8):
    """Either side: the answer to a `Ping`."""

    nonce: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    hints: Hints


class Cancel(_Message, frozen=True, kw_only=True, tag=9):
    """Client: the answer to request `id` is no longer wanted."""

    id: RequestId


class BundleNeed(_Message, frozen=True, kw_only=True, tag=10):
    """Server: lacks the bundle; wants its packed bytes from `offset` on."""

    digest: Digest
    offset: Size


class BundlePart(_Message, frozen=True, kw_only=True, tag=11):
    """Client: one part of a packed bundle; the payload lies at `offset` of `total` bytes."""

    digest: Digest
    offset: Size
    total: Size
    payloads: ClassVar[int] = 1


class BundleHave(_Message, frozen=True, kw_only=True, tag=12):
    """Server: the bundle is complete, checked and served."""

    digest: Digest


class Goodbye(_Message, frozen=True, kw_only=True, tag=13):
    """Either side: orderly end; nothing more will be sent."""

    reason: Text = ""


class BundleRefused(_Message, frozen=True, kw_only=True, tag=14):
    """Server: the pushed bundle is not taken; no more of it is wanted until it is asked for."""

    digest: Digest
    reason: Text


class Advice(_Message, frozen=True, kw_only=True, tag=15):
    """Server: comes before the `Busy` of request `id`, and says what would be in time: the same
    frame at `cut` in `codec`; with both empty only what the client computes alone.

    A client that does not know this message drops it, and does as the `Busy` says.
    """

    id: RequestId
    cut: Name
    codec: Annotated[str, Meta(max_length=32)]


class TracedRequest(Request, frozen=True, kw_only=True, tag=16):
    """Client: a `Request` whose spans are wanted; `trace` is the W3C traceparent of the span that
    the server's belong to. Sent only where tracing is on, and never sealed."""

    trace: Annotated[str, Meta(max_length=55)]


class TailDue(_Message, frozen=True, kw_only=True, tag=17):
    """Client: a request for the tail of `bundle` from `cut` on will probably come in `due_ms`: a
    head has begun. Nobody answers; what is not ready yet may be made so. Never sent beside sealed
    requests, which do not show what they are for."""

    bundle: Digest
    cut: Name
    due_ms: Millis


Message = (
    Hello
    | Offer
    | Request
    | Result
    | Busy
    | ErrorReply
    | Ping
    | Pong
    | Cancel
    | BundleNeed
    | BundlePart
    | BundleHave
    | Goodbye
    | BundleRefused
    | Advice
    | TracedRequest
    | TailDue
)

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)
_tag_decoder: msgspec.msgpack.Decoder[list[object]] = msgspec.msgpack.Decoder(list[object])
_TAGS: Final = frozenset(range(1, 18))


def encode(message: Message, payloads: Frames = ()) -> list[Buffer]:
    """Frames of one message; the payloads are passed through, not copied.

    Raises ValueError when the number of payloads is not what the header announces, and
    TooLargeError when the message breaks a limit that the receiver would enforce.
    """
    if len(payloads) != message.payload_count:
        raise ValueError(f"{len(payloads)} payloads for a header of {message.payload_count}")
    _check_sizes(message, payloads)
    return encode_checked(message, payloads)


def encode_checked(message: Message, payloads: Frames = ()) -> list[Buffer]:
    """As `encode`, for tensors that have passed `check_tensors` already."""
    header = PREFIX + _encoder.encode(message)
    if len(header) > MAX_HEADER_BYTES:
        raise TooLargeError(f"header of {len(header)} bytes", size_bytes=len(header))
    return [header, *payloads]


def decode(frames: Frames) -> tuple[Message, Frames]:
    """Message and payload buffers of the frames of one multipart message.

    Raises WireError or one of its kinds; never anything else, whatever the input.
    """
    if not frames:
        raise WireError("a message without a frame")
    header = memoryview(frames[0])
    if len(header) > MAX_HEADER_BYTES:
        raise TooLargeError(f"header of {len(header)} bytes", size_bytes=len(header))
    if (prefix := bytes(header[: len(PREFIX)])) != PREFIX:
        _blame(prefix)
    message = _decode_header(header[len(PREFIX) :])
    payloads = frames[1:]
    if len(payloads) != message.payload_count:
        raise WireError(
            f"{type(message).__name__} announces {message.payload_count} payload frames, "
            f"{len(payloads)} came"
        )
    _check_sizes(message, payloads)
    return message, payloads


def _blame(prefix: bytes) -> NoReturn:
    if len(prefix) < len(PREFIX) or not prefix.startswith(MAGIC):
        raise WireError("not a Headtail message: the first frame does not begin with 'HT'")
    if prefix[2] != VERSION:
        raise UnknownVersionError(
            f"wire version {prefix[2]}, this side speaks {VERSION}", version=prefix[2]
        )
    raise WireError(f"reserved byte is {prefix[3]}, not 0")


def _decode_header(body: memoryview) -> Message:
    try:
        return _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        tag = _peek_tag(body)
        if tag is not None and tag not in _TAGS:
            raise UnknownTagError(f"message tag {tag!r}", tag=tag) from None
        raise WireError(f"malformed header: {error}") from None


def _peek_tag(body: memoryview) -> int | None:
    try:
        fields = _tag_decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return fields[0] if fields and isinstance(fields[0], int) else None


def _check_sizes(message: Message, payloads: Frames) -> None:
    if isinstance(message, (Request, Result)):
        check_tensors(message.tensors, payloads)
    elif payloads:
        _check_payloads(payloads, MAX_PART_BYTES)


def check_tensors(tensors: Sequence[TensorInfo], payloads: Frames) -> None:
    """Raise what `encode` would raise for a message with these tensors and payloads."""
    if len(payloads) != len(tensors):
        raise ValueError(f"{len(payloads)} payloads for {len(tensors)} tensors")
    if len(tensors) > MAX_TENSORS:
        raise TooLargeError(f"{len(tensors)} tensors, the limit is {MAX_TENSORS}")
    for info in tensors:
        shape = info.shape
        if not 0 <= prod(shape) <= MAX_TENSOR_BYTES or len(shape) > MAX_DIMENSIONS:
            raise TooLargeError(f"tensor {info.name!r} of shape {shape} is too large")
    _check_payloads(payloads, MAX_TENSOR_BYTES)


def _check_payloads(payloads: Frames, limit: int) -> None:
    for payload in payloads:
        size = payload.nbytes if isinstance(payload, memoryview) else len(payload)
        if size > limit:
            raise TooLargeError(f"payload of {size} bytes, the limit is {limit}", size_bytes=size)
