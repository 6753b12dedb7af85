"""A case: the relay asks everybody to answer for one bit, and binds itself to its own record.

Why the outcome is always decided. The relay must show a 1 where an owner swears to a 0, and its
votes (the bit of each party's cipher, with receipts) must add up to that 1. Honest answers repeat
the votes, each party's bits add up to its vote, and the two sides of each pair say the same, so
that all bits add up to 0. One of these fails, then: a vote that its party refutes with the cipher
of the receipt (the relay lied), bits that don't add up (their party lied, or sent what it should
not have), or a pair that disagrees (opening its secret shows who lied). An honest party can't be
convicted in any of the three ways.
"""

import hashlib
from dataclasses import dataclass

from headtail_prifi.blame.claim import ReadClaim, check_claim, read_claim
from headtail_prifi.blame.messages import Case, verify_frame
from headtail_prifi.blame.position import bit_of, stream_bit
from headtail_prifi.core.body import decode_body
from headtail_prifi.core.errors import (
    AccusationError,
    BogusCaseError,
    FrameError,
    MembershipError,
    RecordError,
)
from headtail_prifi.core.geometry import Geometry
from headtail_prifi.core.header import Buffer, Kind, read_header
from headtail_prifi.core.membership import check_certificate
from headtail_prifi.core.seat import RELAY, Role, Seat, client_seat, guard_seat
from headtail_prifi.crypto.errors import SignatureError
from headtail_prifi.round.lock import Lock
from headtail_prifi.round.voucher import Receipt, Span
from headtail_prifi.setup.epoch import Epoch
from headtail_prifi.setup.roster import Membership


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCase:
    """A case that was checked, from the view of anybody."""

    frame: bytes
    number: int
    claim: ReadClaim
    membership: Membership
    geometry: Geometry
    lock: Lock
    votes: dict[Seat, int]
    receipts: dict[Seat, Receipt]

    @property
    def digest(self) -> bytes:
        """32 bytes that name the case in every answer."""
        return hashlib.sha256(self.frame).digest()

    @property
    def round(self) -> int:
        """The disrupted round."""
        return self.claim.accusation.round

    @property
    def position(self) -> int:
        """The accused bit of an upstream frame."""
        return self.claim.accusation.position

    def vote_of(self, seat: Seat, cipher: Buffer) -> int:
        """The bit that a cipher of this party holds at the position."""
        if seat.role is Role.CLIENT:
            return bit_of(cipher, self.position)
        return stream_bit(self.geometry, self.lock, bytes(cipher), self.position)

    def pair_bit(self, stream: bytes) -> int:
        """The bit that one pair's stream of the round adds."""
        return stream_bit(self.geometry, self.lock, stream, self.position)

    def cipher_bytes(self, seat: Seat) -> int:
        """The length of a cipher of this party."""
        if seat.role is Role.CLIENT:
            return self.geometry.upstream_bytes
        return self.geometry.stream_bytes


def seats_of(membership: Membership, guards: int) -> tuple[Seat, ...]:
    """Who must answer, in the order of a case's votes: the clients, then the guards."""
    return (
        *(client_seat(index) for index in membership.clients),
        *(guard_seat(index) for index in range(guards)),
    )


def pack_bits(bits: list[int]) -> bytes:
    """Bits, most significant first, padded with zeros."""
    packed = bytearray(-(-len(bits) // 8))
    for index, bit in enumerate(bits):
        packed[index >> 3] |= bit << (7 - (index & 7))
    return bytes(packed)


def unpack_bits(packed: bytes, count: int) -> list[int]:
    """`count` bits; FrameError when there are more or fewer, or padding that is not 0."""
    bits = [bit_of(packed, index) for index in range(8 * len(packed))]
    if len(packed) != -(-count // 8) or any(bits[count:]):
        raise FrameError(f"{len(packed)} bytes for {count} bits")
    return bits[:count]


def read_case(frame: Buffer, *, epoch: Epoch, geometry: Geometry) -> OpenCase:
    """A case that the relay could rightly open.

    Raises SignatureError or FrameError for a frame that is not the relay's case, and
    BogusCaseError when the relay signed what no honest relay signs.
    """
    header = read_header(frame)
    data = verify_frame(
        frame,
        seat=RELAY,
        epoch_id=epoch.epoch_id,
        verify_key=epoch.roster.relay.verify_key,
    )
    if header.kind is not Kind.CASE:
        raise FrameError("not a case")
    case = decode_body(Case, data)
    try:
        membership = epoch.membership
        if case.certificate is not None:
            membership = check_certificate(case.certificate, epoch, membership)
        claim = read_claim(case.claim, epoch=epoch, geometry=geometry)
        check_claim(claim, epoch)
        if claim.accusation.version != membership.version:
            raise RecordError("the case is set under another membership than its accusation")
        return _read_votes(bytes(frame), case, claim, epoch, geometry, membership)
    except (RecordError, AccusationError, FrameError, SignatureError, MembershipError) as error:
        raise BogusCaseError(f"the relay opened a bogus case: {error.message}") from None


def _read_votes(
    frame: bytes,
    case: Case,
    claim: ReadClaim,
    epoch: Epoch,
    geometry: Geometry,
    membership: Membership,
) -> OpenCase:
    seats = seats_of(membership, epoch.guard_count)
    votes = unpack_bits(case.votes, len(seats))
    if sum(votes) % 2 != 1 or len(case.receipts) != len(seats):
        raise RecordError("the relay's record does not add up to the bit that it shows")
    for seat, receipt in zip(seats, case.receipts, strict=True):
        span = Span(epoch.epoch_id, membership.version, seat, receipt.first, receipt.count)
        receipt.verify(span, claim.accusation.round, seat_key(epoch, seat))
    return OpenCase(
        frame=frame,
        number=case.number,
        claim=claim,
        membership=membership,
        geometry=geometry,
        lock=Lock(claim.opened.link),
        votes=dict(zip(seats, votes, strict=True)),
        receipts=dict(zip(seats, case.receipts, strict=True)),
    )


def seat_key(epoch: Epoch, seat: Seat) -> bytes:
    """The pinned signature key of a party; IndexError for one that does not exist."""
    if seat.role is Role.RELAY:
        return epoch.roster.relay.verify_key
    if seat.role is Role.CLIENT:
        return epoch.client_verify_key(seat.index)
    return epoch.guard_verify_key(seat.index)
