"""The relay's books: what was opened, what came, who vouched, and which frame showed what."""

from collections import deque

from headtail_prifi.core.membership import Certificate
from headtail_prifi.core.seat import Role, Seat
from headtail_prifi.round.record import RoundRecord
from headtail_prifi.round.voucher import CipherLog
from headtail_prifi.setup.epoch import Epoch
from headtail_prifi.setup.roster import Membership


class Books:
    """Kept for `retain` rounds; guards' ciphers come up to `ahead` rounds early. A new membership
    closes the old books: rounds before it can't be accused any more."""

    def __init__(self, epoch: Epoch, *, retain: int, ahead: int) -> None:
        self._epoch = epoch
        self._retain = retain
        self._ahead = ahead
        self._records: dict[int, RoundRecord] = {}
        self._shown: dict[int, dict[int | None, int]] = {}
        self._logs: dict[Seat, CipherLog] = {}
        self.disclosures: deque[tuple[int, int]] = deque()
        """Disrupted sub-slots that are still to be shown."""
        self.membership = epoch.membership
        self.certificate: Certificate | None = None
        self.first_round = 0

    def change(
        self, membership: Membership, certificate: Certificate | None, first_round: int
    ) -> None:
        """A membership begins."""
        self.membership = membership
        self.certificate = certificate
        self.first_round = first_round
        self._shown.clear()
        self._logs.clear()
        self.disclosures.clear()

    def enter(self, record: RoundRecord) -> None:
        """A round was opened."""
        self._records[record.round] = record
        self._records.pop(record.round - self._retain, None)
        self._shown.pop(record.round - self._retain, None)

    def show(self, round_: int, sub_slot: int | None, shown_in: int) -> None:
        """The frame of `shown_in` shows a sub-slot of `round_`, or (None) its reservations."""
        self._shown.setdefault(round_, {})[sub_slot] = shown_in

    def frame(self, round_: int) -> bytes | None:
        """The downstream frame of a round; None when too old or still to come."""
        record = self._records.get(round_)
        return None if record is None else record.down

    def closed(self, round_: int) -> RoundRecord | None:
        """A closed round of the current membership; None when there is none (any more)."""
        record = self._records.get(round_)
        if record is None or record.opened is None or round_ < self.first_round:
            return None
        return record

    def shown(self, round_: int, sub_slot: int | None) -> RoundRecord | None:
        """The round whose frame showed the sub-slot or the reservations."""
        shown_in = self._shown.get(round_, {}).get(sub_slot)
        return None if shown_in is None else self._records.get(shown_in)

    def log(self, seat: Seat) -> CipherLog:
        """What a party sent under the current membership."""
        log = self._logs.get(seat)
        if log is None:
            log = self._logs[seat] = CipherLog(
                epoch_id=self._epoch.epoch_id,
                version=self.membership.version,
                seat=seat,
                first_round=self.first_round,
                retain=self._retain + (self._ahead if seat.role is Role.GUARD else 0),
            )
        return log
