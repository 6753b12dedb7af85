"""The three ways to lose a case; pure functions, the same for relay, parties and outsiders."""

from dataclasses import dataclass
from enum import StrEnum

from headtail_prifi.blame.case import OpenCase, seat_key, unpack_bits
from headtail_prifi.blame.messages import Opening, Reveal, verify_frame
from headtail_prifi.core.body import decode_body, split_signed
from headtail_prifi.core.errors import EvidenceError, FrameError
from headtail_prifi.core.header import HEADER_BYTES, Buffer, Kind, read_header
from headtail_prifi.core.seat import RELAY, Role, Seat, client_seat, guard_seat
from headtail_prifi.crypto.cipher import PadCipher
from headtail_prifi.crypto.errors import CryptoError
from headtail_prifi.crypto.group import Point
from headtail_prifi.crypto.sigma import verify_equality
from headtail_prifi.round.pads import single
from headtail_prifi.round.voucher import cipher_digest
from headtail_prifi.setup.epoch import Epoch, open_pad_key


class Charge(StrEnum):
    """What a verdict says its culprit did."""

    DISRUPTED = "sent a cipher that its own pads do not explain"
    LIED = "revealed a bit that is not its pad's"
    DISPUTED = "disputed the relay's record without a cipher to show for it"
    MISSTATED = "charged a party with a cipher bit that the party's receipt refutes"
    EQUIVOCATED = "signed two histories"
    BOGUS_CASE = "opened a case that its own record does not support"
    DOUBLE_CASE = "used an accusation or a case number twice"
    FALSE_ACCUSATION = "accused a bit that was not its own, or that came as it was sent"
    SILENT = "did not answer (the relay's word)"
    UNVOUCHED = "did not vouch for what it had sent (the relay's word)"
    NOISE = "spoils its own cells and never accuses (the relay's word)"
    BAD_MIX = "broke the accusation shuffle (the relay's word)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """Who is to blame, and for what: a party, or the unknown owner of a slot."""

    culprit: Seat | None
    charge: Charge
    slot: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A party's signed answer to a case."""

    seat: Seat
    bits: tuple[int, ...]
    cipher: bytes | None
    frame: bytes


def read_statement(frame: Buffer, case: OpenCase, epoch: Epoch) -> Statement:
    """Raises FrameError or SignatureError unless it is an answer to this case of one of those who
    must answer."""
    header = read_header(frame)
    signed, _ = split_signed(frame)
    if header.kind is not Kind.REVEAL:
        raise FrameError("not a reveal")
    reveal = decode_body(Reveal, signed[HEADER_BYTES:])
    seat = Seat(reveal.role, header.sender)
    if seat not in case.votes or reveal.case != case.digest:
        raise FrameError("an answer to another case, or of nobody who was asked")
    verify_frame(frame, seat=seat, epoch_id=epoch.epoch_id, verify_key=seat_key(epoch, seat))
    others = epoch.guard_count if seat.role is Role.CLIENT else len(case.membership.clients)
    return Statement(
        seat=seat,
        bits=tuple(unpack_bits(reveal.bits, others)),
        cipher=reveal.cipher,
        frame=bytes(frame),
    )


def judge_statement(case: OpenCase, statement: Statement) -> Ruling | None:
    """The ruling that one answer alone allows; None when it is consistent."""
    seat = statement.seat
    vote = case.votes[seat]
    if statement.cipher is not None:
        if (
            len(statement.cipher) != case.cipher_bytes(seat)
            or cipher_digest(statement.cipher) != case.receipts[seat].digest
            or case.vote_of(seat, statement.cipher) == vote
        ):
            return Ruling(culprit=seat, charge=Charge.DISPUTED)
        return Ruling(culprit=RELAY, charge=Charge.MISSTATED)
    if sum(statement.bits) % 2 != vote:
        return Ruling(culprit=seat, charge=Charge.DISRUPTED)
    return None


def disagree(case: OpenCase, client: Statement, guard: Statement) -> bool:
    """Whether the two sides of a pair revealed different bits."""
    member = case.membership.clients.index(client.seat.index)
    return client.bits[guard.seat.index] != guard.bits[member]


def opening_context(case_digest: bytes, client: int, guard: int) -> bytes:
    """What the proof of an opened secret is bound to."""
    return b"prifi/opening\0" + case_digest + client.to_bytes(4) + guard.to_bytes(4)


def judge_pair(
    case: OpenCase,
    *,
    client: Statement,
    guard: Statement,
    opening: Opening,
    epoch: Epoch,
    cipher: PadCipher,
) -> Ruling:
    """Which side of a pair that disagrees lied, from the secret that one of them opened.

    Raises EvidenceError when the two don't disagree or the opening does not hold.
    """
    pair = (client.seat.index, guard.seat.index)
    if (client.seat.role, guard.seat.role) != (Role.CLIENT, Role.GUARD) or (
        not disagree(case, client, guard)
    ):
        raise EvidenceError("the two answers do not contradict one another")
    if (opening.client, opening.guard) != pair or opening.case != case.digest:
        raise EvidenceError("the opened secret belongs to another pair or case")
    shared = check_opening(opening, epoch)
    key = open_pad_key(shared, case.membership, *pair)
    bit = case.pair_bit(single(cipher.stream(key), case.geometry, case.round))
    liar = guard_seat(pair[1]) if client.bits[guard.seat.index] == bit else client_seat(pair[0])
    return Ruling(culprit=liar, charge=Charge.LIED)


def check_opening(opening: Opening, epoch: Epoch) -> Point:
    """The shared point of the pair; EvidenceError unless one of the two proved it."""
    if opening.client >= epoch.client_count or opening.guard >= epoch.guard_count:
        raise EvidenceError("an opening for a pair that does not exist")
    client_key, guard_key = epoch.client_keys[opening.client], epoch.guard_keys[opening.guard]
    own, other = (client_key, guard_key) if opening.role is Role.CLIENT else (guard_key, client_key)
    try:
        shared = epoch.group.decode(opening.shared)
        verify_equality(
            epoch.group,
            own,
            other,
            shared,
            opening.proof,
            context=opening_context(opening.case, opening.client, opening.guard),
        )
    except CryptoError as error:
        raise EvidenceError(f"an opened secret is not the pair's: {error.message}") from None
    return shared
