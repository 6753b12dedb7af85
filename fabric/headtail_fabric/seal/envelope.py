"""The bytes of what is sealed, version 1. `tests/vectors/seal-v1.json` freezes them.

    request   01, key id (8), enc (32), sequence (8), ciphertext and tag (16)
    answer    02, epoch id (8), sequence (8), nonce (32), ciphertext and tag (16)

The key id is the beginning of the SHA-256 of the edge's public key, the epoch id that of `enc`;
numbers are big-endian. On the wire an envelope is the payload of one tensor of codec `sealed`.

    info of a context       "headtail seal 1", 00, boot (16), session (16)
    associated, request     request id (8), bundle digest (32), size of the cut's name (1), name
    associated, answer      request id (8), sequence (8)
    answer's key            RFC 9458, 4.4: secret = Export("headtail answer", 32), salt = enc, nonce
"""

import hashlib
from dataclasses import dataclass
from typing import Final, Self

from headtail_fabric.seal.cipher import KEY_BYTES, NONCE_BYTES, TAG_BYTES
from headtail_fabric.seal.errors import NotSealedError, ReplayedError, TruncatedError
from headtail_fabric.seal.hpke import MAX_SEQUENCE, Context, expand, extract
from headtail_fabric.wire import (
    MAX_TENSOR_BYTES,
    Buffer,
    DType,
    Frames,
    Request,
    TensorInfo,
    TooLargeError,
)

SEALED: Final = "sealed"
ID_BYTES: Final = 8
RESPONSE_NONCE_BYTES: Final = 32

_REQUEST: Final = b"\x01"
_ANSWER: Final = b"\x02"
_REQUEST_HEAD: Final = 1 + ID_BYTES + KEY_BYTES + 8
_ANSWER_HEAD: Final = 1 + ID_BYTES + 8 + RESPONSE_NONCE_BYTES
_PURPOSE: Final = b"headtail seal 1\0"
_ANSWER_SECRET: Final = b"headtail answer"

REQUEST_OVERHEAD: Final = _REQUEST_HEAD + TAG_BYTES
ANSWER_OVERHEAD: Final = _ANSWER_HEAD + TAG_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestEnvelope:
    """The parts of a sealed request."""

    key_id: bytes
    enc: bytes
    sequence: int
    ciphertext: Buffer

    def to_bytes(self) -> bytes:
        sequence = self.sequence.to_bytes(8)
        return b"".join((_REQUEST, self.key_id, self.enc, sequence, self.ciphertext))

    @classmethod
    def parse(cls, envelope: Buffer) -> Self:
        """Raises TruncatedError; ReplayedError for a sequence number that none can have."""
        view = _checked(envelope, _REQUEST, REQUEST_OVERHEAD)
        at = 1 + ID_BYTES
        return cls(
            key_id=bytes(view[1:at]),
            enc=bytes(view[at : at + KEY_BYTES]),
            sequence=_sequence(view[at + KEY_BYTES : _REQUEST_HEAD]),
            ciphertext=view[_REQUEST_HEAD:],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerEnvelope:
    """The parts of a sealed answer."""

    epoch_id: bytes
    sequence: int
    nonce: bytes
    ciphertext: Buffer

    def to_bytes(self) -> bytes:
        sequence = self.sequence.to_bytes(8)
        return b"".join((_ANSWER, self.epoch_id, sequence, self.nonce, self.ciphertext))

    @classmethod
    def parse(cls, envelope: Buffer) -> Self:
        """Raises TruncatedError; ReplayedError for a sequence number that none can have."""
        view = _checked(envelope, _ANSWER, ANSWER_OVERHEAD)
        at = 1 + ID_BYTES
        return cls(
            epoch_id=bytes(view[1:at]),
            sequence=_sequence(view[at : at + 8]),
            nonce=bytes(view[at + 8 : _ANSWER_HEAD]),
            ciphertext=view[_ANSWER_HEAD:],
        )


def short_id(key: bytes) -> bytes:
    """What names a public key or an `enc` in an envelope."""
    return hashlib.sha256(key).digest()[:ID_BYTES]


def context_info(*, session: bytes, boot: bytes) -> bytes:
    """Binds a context to one run of the edge and one session there."""
    return _PURPOSE + boot + session


def of_request(*, id: int, bundle: bytes, cut: str) -> bytes:
    """What a request's ciphertext is bound to beside its context and sequence number."""
    name = cut.encode()
    return id.to_bytes(8) + bundle + bytes([len(name)]) + name


def of_answer(*, id: int, sequence: int) -> bytes:
    """What an answer's ciphertext is bound to."""
    return id.to_bytes(8) + sequence.to_bytes(8)


def answer_secret(context: Context) -> bytes:
    """What the keys of an epoch's answers are made of."""
    return context.export(_ANSWER_SECRET, KEY_BYTES)


def answer_key(secret: bytes, enc: bytes, nonce: bytes) -> tuple[bytes, bytes]:
    """Key and nonce of one answer, from its own random `nonce`: however often a request is
    answered, no key is used twice."""
    key = extract(enc + nonce, secret)
    return expand(key, b"key", KEY_BYTES), expand(key, b"nonce", NONCE_BYTES)


def tensor_of(envelope: bytes) -> TensorInfo:
    """How an envelope is announced on the wire. Raises TooLargeError."""
    if len(envelope) > MAX_TENSOR_BYTES:
        raise TooLargeError(f"sealed payload of {len(envelope)} bytes", size_bytes=len(envelope))
    return TensorInfo(name=SEALED, dtype=DType.UINT8, shape=(len(envelope),), codec=SEALED)


def is_sealed(request: Request) -> bool:
    """Whether a request's content is sealed, well or badly."""
    return any(tensor.codec == SEALED for tensor in request.tensors)


def envelope_of(tensors: tuple[TensorInfo, ...], payloads: Frames) -> Buffer:
    """The one envelope of a message. Raises NotSealedError, TruncatedError."""
    if not any(tensor.codec == SEALED for tensor in tensors):
        raise NotSealedError("the payload is not sealed")
    if len(tensors) != 1:
        raise TruncatedError(f"{len(tensors)} tensors in a sealed message, which has one")
    return payloads[0]


def _checked(envelope: Buffer, kind: bytes, overhead: int) -> memoryview:
    view = memoryview(envelope)
    if len(view) < overhead or view[:1] != kind:
        raise TruncatedError(f"{len(view)} bytes are no sealed message of this kind")
    return view


def _sequence(view: memoryview) -> int:
    sequence = int.from_bytes(view)
    if sequence > MAX_SEQUENCE:
        raise ReplayedError("a sequence number beyond the last one")
    return sequence
