"""The messages of the set-up: who says what, in which bytes, and under whose signature.

    frame    b"HS", version u8, 0 | Ed25519 signature, 64 bytes | msgpack array [tag, field, ...]

Each frame is signed by its author for the author's role, so the relay can only pass frames on or
keep them; keys of a kind stand in one string, 33 bytes a point. In order (PriFi's names at the
right, PoPETs 2020 and its code):

    relay  -> all       Announcement     ALL_ALL_PARAMETERS
    guard  -> all       GuardKeys        TRU_REL_TELL_PK
    client -> guards    ClientKeys       CLI_REL_TELL_PK_AND_EPH_PK
    guard  -> guards    ShuffleStep      TRU_REL_TELL_NEW_BASE_AND_EPH_PKS, the list of the next
    guard  -> guards    ShuffleProof     REL_TRU_TELL_TRANSCRIPT, as it grows
    guard  -> clients   Endorsement      TRU_REL_SHUFFLE_SIG
    relay  -> clients   Outcome          REL_CLI_TELL_EPH_PKS_AND_TRUSTEES_SIG
    anyone -> relay     Abort
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from headtail_prifi.core.seat import Role, Seat
from headtail_prifi.crypto.errors import EncodingError, SignatureError
from headtail_prifi.crypto.group import POINT_BYTES, Group, Point
from headtail_prifi.crypto.shuffle import proof_bytes
from headtail_prifi.crypto.sigma import KNOWLEDGE_BYTES
from headtail_prifi.crypto.signature import SIGNATURE_BYTES, SigningKey, verify_signature
from headtail_prifi.setup.errors import MessageError
from headtail_prifi.setup.roster import MAX_CLIENTS, MAX_GUARDS, MIN_CLIENTS

VERSION: Final = 1
PREFIX: Final = b"HS" + bytes([VERSION, 0])
MAX_PARAMETERS_BYTES: Final = 1024
MAX_FRAME_BYTES: Final = 256 * 1024
_HEAD_BYTES: Final = len(PREFIX) + SIGNATURE_BYTES

Hash = Annotated[bytes, Meta(min_length=32, max_length=32)]
EpochId = Hash
EncodedPoint = Annotated[bytes, Meta(min_length=POINT_BYTES, max_length=POINT_BYTES)]
EncodedKeys = Annotated[
    bytes, Meta(min_length=MIN_CLIENTS * POINT_BYTES, max_length=MAX_CLIENTS * POINT_BYTES)
]
TwoKeysProof = Annotated[bytes, Meta(min_length=KNOWLEDGE_BYTES, max_length=KNOWLEDGE_BYTES)]
ClientIndex = Annotated[int, Meta(ge=0, lt=MAX_CLIENTS)]
GuardIndex = Annotated[int, Meta(ge=0, lt=MAX_GUARDS)]


class Reason(IntEnum):
    """Why a party gives an attempt up."""

    KEYS = 1
    SHUFFLE = 2
    OUTCOME = 3
    SILENCE = 4


class _Message(
    msgspec.Struct, frozen=True, array_like=True, kw_only=True, forbid_unknown_fields=True
):
    @property
    def author(self) -> Seat:
        """Who must have signed."""
        raise NotImplementedError


class _FromRelay(_Message, frozen=True, kw_only=True):
    @property
    def author(self) -> Seat:
        return Seat(Role.RELAY, 0)


class _FromGuard(_Message, frozen=True, kw_only=True):
    epoch_id: EpochId
    guard: GuardIndex

    @property
    def author(self) -> Seat:
        return Seat(Role.GUARD, self.guard)


class Announcement(_FromRelay, frozen=True, kw_only=True, tag=1):
    """An epoch of these clients of the roster, by their index in it, ascending.

    `number` grows with each attempt, `nonce` is random, and `parameters` is what the rounds will
    use, opaque here. The hash of all this names the epoch, so nothing of another attempt fits.
    """

    number: Annotated[int, Meta(ge=1, le=2**63 - 1)]
    roster_hash: Hash
    members: Annotated[
        tuple[ClientIndex, ...], Meta(min_length=MIN_CLIENTS, max_length=MAX_CLIENTS)
    ]
    parameters: Annotated[bytes, Meta(max_length=MAX_PARAMETERS_BYTES)]
    nonce: Hash

    @property
    def epoch_id(self) -> bytes:
        """32 bytes."""
        return hashlib.sha256(b"prifi/epoch\0" + _encoder.encode(self)).digest()


class GuardKeys(_FromGuard, frozen=True, kw_only=True, tag=2):
    """Y_j for pads, Z_j for accusation shuffles, and the proof of both secrets."""

    pad_key: EncodedPoint
    accusation_key: EncodedPoint
    proof: TwoKeysProof


class ClientKeys(_Message, frozen=True, kw_only=True, tag=3):
    """X_i for pads, the pseudonym key E_i, and the proof of both secrets.

    `client` is the index in the epoch. The proof is needed for both: with E_i = 2 E_a unproven, a
    client would find its victim's slot as half of its own; with X_i = X_a + dB, it would have a
    guard open in blame what it shares with the victim.
    """

    epoch_id: EpochId
    client: ClientIndex
    pad_key: EncodedPoint
    pseudonym: EncodedPoint
    proof: TwoKeysProof

    @property
    def author(self) -> Seat:
        return Seat(Role.CLIENT, self.client)


class ShuffleStep(_FromGuard, frozen=True, kw_only=True, tag=4):
    """The base and keys after this guard's shuffle."""

    base: EncodedPoint
    keys: EncodedKeys


class ShuffleProof(_FromGuard, frozen=True, kw_only=True, tag=5):
    """The proof of this guard's step; made after the step was passed on."""

    proof: Annotated[bytes, Meta(max_length=proof_bytes(MAX_CLIENTS))]


class Endorsement(_FromGuard, frozen=True, kw_only=True, tag=6):
    """This guard has verified every key and every other guard's proof, and its own step is in."""

    outcome_hash: Hash


class Outcome(_FromRelay, frozen=True, kw_only=True, tag=7):
    """The result: pad keys of all clients by index, the last base and the slots' keys."""

    epoch_id: EpochId
    client_keys: EncodedKeys
    base: EncodedPoint
    slots: EncodedKeys

    def hash(self, guard_keys: Iterable[tuple[Point, Point]]) -> bytes:
        """What guards endorse: 32 bytes over all of it and both keys of every guard."""
        digest = hashlib.sha256(b"prifi/outcome\0")
        digest.update(_encoder.encode(self))
        for pair in guard_keys:
            digest.update(join_points(pair))
        return digest.digest()


class Abort(_Message, frozen=True, kw_only=True, tag=8):
    """The author gives the attempt up, and says whose fault it thinks it is."""

    epoch_id: EpochId
    role: Role
    index: ClientIndex
    reason: Reason
    accused_role: Role
    accused_index: ClientIndex

    @property
    def author(self) -> Seat:
        return Seat(self.role, self.index)

    @property
    def accused(self) -> Seat:
        """The party that is to blame, by the author's word only."""
        return Seat(self.accused_role, self.accused_index)


MessageOfEpoch = GuardKeys | ClientKeys | ShuffleStep | ShuffleProof | Endorsement | Outcome | Abort
Message = Announcement | MessageOfEpoch

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final[msgspec.msgpack.Decoder[Message]] = msgspec.msgpack.Decoder(Message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """A message with the frame it came in, so that it can be passed on and kept as evidence."""

    message: Message
    frame: bytes

    def verify(self, verify_key: bytes) -> None:
        """Raises MessageError unless the owner of the key signed this frame in the role that the
        message names."""
        signature, body = self.frame[len(PREFIX) : _HEAD_BYTES], self.frame[_HEAD_BYTES:]
        author = self.message.author
        try:
            verify_signature(verify_key, signature, body, purpose=_purpose(author.role))
        except SignatureError:
            raise MessageError(
                f"{type(self.message).__name__} is not signed by {author!r}", author=author
            ) from None


def pack(message: Message, key: SigningKey) -> Parcel:
    """The message in a signed frame."""
    body = _encoder.encode(message)
    signature = key.sign(body, purpose=_purpose(message.author.role))
    return Parcel(message=message, frame=PREFIX + signature + body)


def unpack(frame: bytes | bytearray | memoryview) -> Parcel:
    """The message of a frame; the signature is not checked yet.

    Raises MessageError, whatever comes, also for a message that is not in its one encoding.
    """
    if not _HEAD_BYTES < len(frame) <= MAX_FRAME_BYTES:
        raise MessageError(f"a set-up frame of {len(frame)} bytes")
    data = bytes(frame)
    if data[: len(PREFIX)] != PREFIX:
        raise MessageError("not a set-up frame of this version")
    body = data[_HEAD_BYTES:]
    try:
        message = _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MessageError(f"malformed set-up message: {error}") from None
    if _encoder.encode(message) != body:
        raise MessageError("a set-up message that is not in its one encoding")
    return Parcel(message=message, frame=data)


def join_points(points: Iterable[Point]) -> bytes:
    """Points in one string."""
    return b"".join(point.encode() for point in points)


def split_points(group: Group, data: bytes, count: int) -> tuple[Point, ...]:
    """The `count` points of such a string; MessageError for anything else."""
    if len(data) != count * POINT_BYTES:
        raise MessageError(f"{len(data)} bytes for {count} points")
    return tuple(
        decode_point(group, data[start : start + POINT_BYTES])
        for start in range(0, len(data), POINT_BYTES)
    )


def decode_point(group: Group, data: bytes) -> Point:
    """One point; MessageError for everything that is not one."""
    try:
        return group.decode(data)
    except EncodingError as error:
        raise MessageError(f"a bad key: {error.message}") from None


def _purpose(role: Role) -> str:
    return f"prifi/setup/{role.name.lower()}"
