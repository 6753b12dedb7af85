"""A claim: an accusation beside the relay's signed words about the round that it names."""

from dataclasses import dataclass

from headtail_prifi.blame.accusation import Accusation, record_of
from headtail_prifi.blame.messages import Claim
from headtail_prifi.blame.position import Place, bit_of, owner_of, place_of
from headtail_prifi.core.body import split_signed
from headtail_prifi.core.errors import FrameError, RecordError, RefutedError
from headtail_prifi.core.geometry import Geometry
from headtail_prifi.core.header import Header, Kind, read_header
from headtail_prifi.core.messages import Down
from headtail_prifi.crypto.errors import SignatureError
from headtail_prifi.round.downstream import read_down
from headtail_prifi.round.history import HistoryStatement, next_link
from headtail_prifi.round.schedule import decode_owners
from headtail_prifi.setup.epoch import Epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadClaim:
    """What the relay's record says about the accused bit."""

    accusation: Accusation
    place: Place | None
    owners: tuple[int, ...]
    opened: HistoryStatement
    shown: HistoryStatement
    got: int | None
    """The bit that the relay shows, None when the shown frame does not show it."""


def read_claim(claim: Claim, *, epoch: Epoch, geometry: Geometry) -> ReadClaim:
    """Raises RecordError unless both frames are the relay's, are what the accuser saw, and the
    first opened the round."""
    accusation = claim.accusation
    header, opened, statement = _read_down(claim.opened, claim.opened_before, epoch, geometry)
    if (header.round, header.version) != (accusation.round, accusation.version):
        raise RecordError("the frame that is shown did not open the round in question")
    _, shown, shown_statement = _read_down(claim.shown, claim.shown_before, epoch, geometry)
    if accusation.record != record_of(statement.link, shown_statement.link):
        raise RecordError("the accuser saw another history")
    place = place_of(geometry, accusation.position)
    return ReadClaim(
        accusation=accusation,
        place=place,
        owners=decode_owners(opened.owners),
        opened=statement,
        shown=shown_statement,
        got=None if place is None else _shown_bit(shown, accusation.round, place, geometry),
    )


def check_claim(claim: ReadClaim, epoch: Epoch) -> None:
    """Raises AccusationError when the owner of the slot did not make it, RefutedError when it did
    but the relay's record contradicts it, and RecordError when the record does not show the bit."""
    accusation = claim.accusation
    accusation.verify(epoch)
    if claim.place is None or owner_of(claim.place, claim.owners) != accusation.slot:
        raise RefutedError(f"slot {accusation.slot} does not own bit {accusation.position}")
    if claim.got is None:
        raise RecordError("the frame that is shown does not show the accused bit")
    if claim.got == 0:
        raise RefutedError("the relay got a 0, as it was sent")


def _read_down(
    frame: bytes, before: bytes, epoch: Epoch, geometry: Geometry
) -> tuple[Header, Down, HistoryStatement]:
    try:
        header = read_header(frame)
        signed, signature = split_signed(frame)
        if header.kind is not Kind.DOWN:
            raise RecordError("a frame that is shown is no downstream frame")
        statement = HistoryStatement(
            epoch_id=epoch.epoch_id,
            round=header.round,
            link=next_link(before, signed),
            signature=signature,
        )
        statement.verify(epoch.roster.relay.verify_key)
        return header, read_down(signed, geometry), statement
    except (FrameError, SignatureError) as error:
        raise RecordError(f"a frame that is shown is not the relay's: {error.message}") from None


def _shown_bit(shown: Down, round_: int, place: Place, geometry: Geometry) -> int | None:
    if place.sub_slot is None:
        for report in shown.reports:
            if report.round == round_ and place.bit < 8 * len(report.reservations):
                return bit_of(report.reservations, place.bit)
        return None
    disclosure = shown.disclosure
    if disclosure is None or (disclosure.round, disclosure.sub_slot) != (round_, place.sub_slot):
        return None
    if len(disclosure.payload) != geometry.cell_bytes:
        return None
    return bit_of(disclosure.payload + disclosure.key, place.bit)
