"""How the relay writes a case down: the claim, its record of every cipher's bit, the receipts."""

from headtail_prifi.blame.case import pack_bits, seats_of
from headtail_prifi.blame.messages import Case, Claim, sign_frame
from headtail_prifi.blame.position import bit_of, stream_bit
from headtail_prifi.core.geometry import Geometry
from headtail_prifi.core.header import Header, Kind, short_id
from headtail_prifi.core.seat import RELAY, Role, Seat
from headtail_prifi.crypto.signature import SigningKey
from headtail_prifi.round.books import Books
from headtail_prifi.round.lock import Lock
from headtail_prifi.round.record import RoundRecord
from headtail_prifi.setup.epoch import Epoch


class CaseWriter:
    """Numbers its cases from 1."""

    def __init__(
        self, *, epoch: Epoch, geometry: Geometry, books: Books, signing_key: SigningKey
    ) -> None:
        self._epoch = epoch
        self._geometry = geometry
        self._books = books
        self._signing_key = signing_key
        self._cases = 0

    def write(self, claim: Claim) -> bytes:
        """The signed frame. Every party must have vouched for the round."""
        record = self._books.closed(claim.accusation.round)
        assert record is not None
        membership = self._books.membership
        seats = seats_of(membership, self._epoch.guard_count)
        self._cases += 1
        case = Case(
            number=self._cases,
            certificate=self._books.certificate,
            claim=claim,
            votes=pack_bits([self._vote(record, seat, claim) for seat in seats]),
            receipts=tuple(self._books.log(seat).receipt(record.round) for seat in seats),
        )
        epoch_id = self._epoch.epoch_id
        header = Header(
            Kind.CASE, 0, RELAY.index, record.round, short_id(epoch_id), membership.version
        )
        return sign_frame(header, case, seat=RELAY, epoch_id=epoch_id, key=self._signing_key)

    def _vote(self, record: RoundRecord, seat: Seat, claim: Claim) -> int:
        position = claim.accusation.position
        if seat.role is Role.CLIENT:
            return bit_of(record.cipher(seat.index), position)
        row = record.rows[seat.index].tobytes()
        return stream_bit(self._geometry, Lock(record.link), row, position)
