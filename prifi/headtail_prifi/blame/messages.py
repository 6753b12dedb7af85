"""The bodies of blame. What is to be evidence ends in its author's signature (`sign_frame`)."""

from typing import Annotated, Final

from msgspec import Meta

from headtail_prifi.blame.accusation import Accusation
from headtail_prifi.core.body import Body, Hash, Signature, encode_body, split_signed
from headtail_prifi.core.geometry import MAX_DOWN_BYTES, MAX_UPSTREAM_BYTES
from headtail_prifi.core.header import HEADER_BYTES, Buffer, Header
from headtail_prifi.core.membership import Certificate
from headtail_prifi.core.seat import Role, Seat
from headtail_prifi.crypto.group import POINT_BYTES
from headtail_prifi.crypto.sigma import EQUALITY_BYTES
from headtail_prifi.crypto.signature import SigningKey, verify_signature
from headtail_prifi.round.voucher import Receipt
from headtail_prifi.setup.roster import MAX_CLIENTS, MAX_GUARDS

PURPOSE: Final = "prifi/blame"
MIX_BLOCKS: Final = 4
MIX_ROW_BYTES: Final = MIX_BLOCKS * 2 * POINT_BYTES
MAX_DOWN_FRAME_BYTES: Final = 4 * MAX_DOWN_BYTES
MAX_PARTIES: Final = MAX_CLIENTS + MAX_GUARDS

Bits = Annotated[bytes, Meta(max_length=-(-MAX_PARTIES // 8))]
DownFrame = Annotated[bytes, Meta(max_length=MAX_DOWN_FRAME_BYTES)]
ClientIndex = Annotated[int, Meta(ge=0, lt=MAX_CLIENTS)]
GuardIndex = Annotated[int, Meta(ge=0, lt=MAX_GUARDS)]
Number = Annotated[int, Meta(ge=1, lt=2**31)]
MixFrame = Annotated[bytes, Meta(max_length=1024 * 1024)]
Point = Annotated[bytes, Meta(min_length=POINT_BYTES, max_length=POINT_BYTES)]


class Vouch(Body, frozen=True, kw_only=True):
    """Relay to client: vouch now for the header's round; a case is to come."""


class Vouched(Body, frozen=True, kw_only=True):
    """Client to relay: its voucher from the window's start to the header's round."""

    voucher: Signature


class Claim(Body, frozen=True, kw_only=True):
    """An accusation and the relay's own words for it: the frame that opened the round (who owned
    what) and the one that showed what came, each with the history before it."""

    accusation: Accusation
    opened: DownFrame
    opened_before: Hash
    shown: DownFrame
    shown_before: Hash


class Case(Body, frozen=True, kw_only=True):
    """Relay to all, signed: answer for this bit.

    `votes` has the bit that each party's cipher holds there, by the relay's record: the clients of
    the membership in order, then the guards; `receipts`, in the same order, prove which cipher.
    Numbers count from 1; a number, an accusation and a case belong to each other. The membership
    of version 0, all clients, needs no certificate.
    """

    number: Number
    certificate: Certificate | None
    claim: Claim
    votes: Bits
    receipts: Annotated[tuple[Receipt, ...], Meta(max_length=MAX_PARTIES)]


class Reveal(Body, frozen=True, kw_only=True):
    """Client or guard to relay, signed: the bit of each of its pairs, in order of the other role.

    `cipher` is there only to dispute the relay's vote: the cipher that the receipt names.
    """

    case: Hash
    role: Role
    bits: Bits
    cipher: Annotated[bytes, Meta(max_length=2 * MAX_UPSTREAM_BYTES)] | None = None


class Conflict(Body, frozen=True, kw_only=True):
    """Relay to a client and a guard that revealed different bits: open your shared secret.

    `reveal` is the other side's signed frame: without it nobody opens anything.
    """

    client: ClientIndex
    guard: GuardIndex
    reveal: Annotated[bytes, Meta(max_length=3 * MAX_UPSTREAM_BYTES)]


class Opening(Body, frozen=True, kw_only=True):
    """Client or guard to relay: the shared point and the proof that it is the right one. It needs
    no signature, as only the two can make it."""

    case: Hash
    client: ClientIndex
    guard: GuardIndex
    role: Role
    shared: Point
    proof: Annotated[bytes, Meta(min_length=EQUALITY_BYTES, max_length=EQUALITY_BYTES)]


class Call(Body, frozen=True, kw_only=True):
    """Relay to clients: submit to accusation shuffle `number`, an accusation or nothing."""

    number: Number


class Submit(Body, frozen=True, kw_only=True):
    """Client to guards, signed: its row (2 points a block) and the proof that it made it."""

    number: Number
    row: Annotated[bytes, Meta(max_length=MIX_ROW_BYTES, min_length=MIX_ROW_BYTES)]
    proof: Annotated[bytes, Meta(max_length=1024)]


class Mix(Body, frozen=True, kw_only=True):
    """Relay to the guard whose turn it is: every client's submission, in order of the membership,
    and the steps of the guards before (`Mixed` frames)."""

    number: Number
    submissions: Annotated[tuple[MixFrame, ...], Meta(max_length=MAX_CLIENTS)]
    steps: Annotated[tuple[MixFrame, ...], Meta(max_length=MAX_GUARDS)]


class Mixed(Body, frozen=True, kw_only=True):
    """Guard to guards, signed: all rows, mixed, and the proof."""

    number: Number
    rows: Annotated[bytes, Meta(max_length=MAX_CLIENTS * MIX_ROW_BYTES)]
    proof: Annotated[bytes, Meta(max_length=256 * 1024)]


class Unmask(Body, frozen=True, kw_only=True):
    """Relay to all guards: the steps of all of them; open the last rows."""

    number: Number
    steps: Annotated[tuple[MixFrame, ...], Meta(max_length=MAX_GUARDS)]


class Shares(Body, frozen=True, kw_only=True):
    """Guard to relay, signed: its share of each block, and the proof for all."""

    number: Number
    shares: Annotated[bytes, Meta(max_length=MAX_CLIENTS * MIX_BLOCKS * POINT_BYTES)]
    proof: Annotated[bytes, Meta(min_length=EQUALITY_BYTES, max_length=EQUALITY_BYTES)]


class Proclaim(Body, frozen=True, kw_only=True):
    """Relay to all: the outcome, as evidence (`blame/evidence.py`) that each checks itself."""

    evidence: Annotated[bytes, Meta(max_length=3 * 1024 * 1024)]


def sign_frame(
    header: Header, body: Body, *, seat: Seat, epoch_id: bytes, key: SigningKey
) -> bytes:
    """Header, body and the author's signature, bound to the epoch, the seat and the kind."""
    signed = header.encode() + encode_body(body)
    return signed + key.sign(epoch_id + seat.encode() + signed, purpose=PURPOSE)


def verify_frame(frame: Buffer, *, seat: Seat, epoch_id: bytes, verify_key: bytes) -> memoryview:
    """The bytes of the body, once the author's signature was checked; else SignatureError."""
    signed, signature = split_signed(frame)
    content = epoch_id + seat.encode() + signed
    verify_signature(verify_key, signature, content, purpose=PURPOSE)
    return signed[HEADER_BYTES:]
