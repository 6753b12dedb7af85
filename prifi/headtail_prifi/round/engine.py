"""The relay's rounds: gathered, closed in order, opened; without time, membership or blame.

It owns the books, the schedule, the guards' stock and the downstream voice, and does to them what
one closed round means: reservations and backlogs to the schedule, a report to the next frame.
"""

from collections import deque
from dataclasses import dataclass

import numpy as np

from headtail_prifi.core.errors import FrameError, UnexpectedFrameError
from headtail_prifi.core.geometry import Geometry
from headtail_prifi.core.header import HEADER_BYTES, VOUCHED, Buffer, Header
from headtail_prifi.core.membership import Certificate
from headtail_prifi.core.messages import NOBODY, Disclosure, Retirement
from headtail_prifi.core.seat import Seat, client_seat
from headtail_prifi.crypto.cipher import PadCipher
from headtail_prifi.crypto.errors import SignatureError
from headtail_prifi.crypto.signature import SIGNATURE_BYTES, SigningKey
from headtail_prifi.round.announcer import Announcer
from headtail_prifi.round.books import Books
from headtail_prifi.round.options import RelayOptions, retained_rounds
from headtail_prifi.round.pads import MAX_BATCH_ROUNDS
from headtail_prifi.round.reading import Reading, disclose, read_round
from headtail_prifi.round.record import Bytes, RoundRecord
from headtail_prifi.round.schedule import Scheduler, decode_owners, encode_owners
from headtail_prifi.round.stock import PadStock, ahead_rounds
from headtail_prifi.round.voucher import closes_window, window_start
from headtail_prifi.setup.epoch import Epoch
from headtail_prifi.setup.roster import Membership


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """A closed round: what was read, and which clients did not vouch for what they had sent."""

    round: int
    reading: Reading
    unvouched: tuple[int, ...]


class Engine:
    """Raises FrameError or UnexpectedFrameError for a frame of a wrong size or round; frames that
    come late or twice are ignored."""

    def __init__(
        self,
        *,
        epoch: Epoch,
        geometry: Geometry,
        signing_key: SigningKey,
        cipher: PadCipher,
        options: RelayOptions,
    ) -> None:
        self._epoch = epoch
        self._geometry = geometry
        self._cipher = cipher
        self._options = options
        self.announcer = Announcer(
            epoch_id=epoch.epoch_id,
            geometry=geometry,
            signing_key=signing_key,
            max_waiting=options.max_down_waiting,
        )
        self.books = Books(
            epoch,
            retain=retained_rounds(epoch.client_count),
            ahead=2 * ahead_rounds(geometry, options.ahead_batches),
        )
        self.scheduler = Scheduler(geometry)
        self.stock = self._new_stock(0)
        self.open: deque[RoundRecord] = deque()
        """Rounds that wait for ciphers, oldest first."""

    @property
    def next_round(self) -> int:
        """The round that opens next."""
        return self.announcer.next_round

    # -- gathering ----------------------------------------------------------------------------

    def add_cipher(self, frame: bytes, header: Header) -> None:
        """A client's UP frame."""
        vouched = closes_window(header.round)
        size = HEADER_BYTES + self._geometry.upstream_bytes + vouched * SIGNATURE_BYTES
        if len(frame) != size or header.flags != vouched * VOUCHED:
            raise FrameError(f"an upstream frame of {len(frame)} bytes in round {header.round}")
        if header.round >= self.announcer.next_round:
            raise UnexpectedFrameError(f"a cipher for round {header.round}, which is not open")
        if not self.open or header.version != self.books.membership.version:
            return
        offset = header.round - self.open[0].round
        if offset < 0 or header.sender not in self.open[offset].missing:
            return
        cipher = self.open[offset].add(header.sender, frame)
        self.books.log(client_seat(header.sender)).add(header.round, cipher)

    def add_pads(self, frame: Buffer, header: Header, source: Seat) -> None:
        """A guard's PADS frame; SignatureError when it does not vouch for what is in it."""
        width = self._geometry.stream_bytes
        data = memoryview(frame)[HEADER_BYTES:-SIGNATURE_BYTES]
        count, rest = divmod(len(data), width)
        if rest or not 0 < count <= MAX_BATCH_ROUNDS or header.flags != VOUCHED:
            raise FrameError(f"pads of {len(frame)} bytes")
        if header.version != self.books.membership.version:
            return
        rows = np.frombuffer(data, np.uint8).reshape(count, width)
        self.stock.store(source.index, header.round, rows)
        log = self.books.log(source)
        for offset, row in enumerate(rows):
            log.add(header.round + offset, row.data)
        voucher = bytes(frame[-SIGNATURE_BYTES:])
        key = self._epoch.guard_verify_key(source.index)
        log.accept(header.round, count, voucher, key)

    def grants(self) -> list[tuple[int, int, int]]:
        """What to grant to guards now: (guard, first round, count)."""
        return self.stock.wanted(self.next_round)

    # -- closing ------------------------------------------------------------------------------

    @property
    def closable(self) -> bool:
        """Whether the oldest open round has all that it needs."""
        return (
            bool(self.open)
            and not self.open[0].missing
            and not self.stock.lacking(self.open[0].round)
        )

    def close(self) -> Closed:
        """Close the oldest open round, which is closable."""
        record = self.open.popleft()
        opened = self._open_up(record)
        reading = read_round(record, opened, self._geometry, self._cipher)
        for slot, cell in reading.cells:
            self.scheduler.on_cell(record.round, slot, cell.backlog)
        for slot in reading.silent:
            self.scheduler.on_silence(slot)
        for sub_slot, slot in reading.disrupted:
            self.scheduler.on_disruption(record.round, slot)
            self.books.disclosures.append((record.round, sub_slot))
        self.scheduler.on_reservations(record.round, reading.report.reservations)
        self.announcer.add_report(reading.report)
        unvouched = self._unvouched(record) if closes_window(record.round) else ()
        return Closed(round=record.round, reading=reading, unvouched=unvouched)

    def _open_up(self, record: RoundRecord) -> Bytes:
        return record.close(self.stock.take(record.round))

    def _unvouched(self, record: RoundRecord) -> tuple[int, ...]:
        unvouched = []
        for client, frame in record.frames.items():
            log = self.books.log(client_seat(client))
            first = window_start(record.round, log.first_round)
            key = self._epoch.client_verify_key(client)
            try:
                log.accept(first, record.round - first + 1, frame[-SIGNATURE_BYTES:], key)
            except SignatureError:
                unvouched.append(client)
        return tuple(unvouched)

    # -- opening ------------------------------------------------------------------------------

    @property
    def may_open(self) -> bool:
        """Whether the window has room and the epoch has rounds left."""
        return len(self.open) < self._geometry.window and not self.exhausted

    @property
    def exhausted(self) -> bool:
        """Whether the last round of the epoch was opened."""
        retirement = self.announcer.retirement
        return retirement is not None and self.next_round > retirement.last_round

    def open_round(self) -> bytes:
        """Open the next round: the frame for all clients."""
        books, announcer = self.books, self.announcer
        round_ = announcer.next_round
        owners = self._owners(round_)
        disclosure = self._disclose(round_)
        for reported in announcer.reported:
            books.show(reported, None, round_)
        before = announcer.link
        down = announcer.announce(owners, books.membership.version, disclosure)
        record = RoundRecord(
            geometry=self._geometry,
            round_=round_,
            owners=decode_owners(owners),
            down=down,
            before=before,
            link=announcer.link,
            members=books.membership.clients,
        )
        books.enter(record)
        self.open.append(record)
        return down

    def _owners(self, round_: int) -> bytes:
        retirement = self.announcer.retirement
        if retirement is not None and round_ > retirement.last_round - self._geometry.window:
            return encode_owners((NOBODY,) * self._geometry.sub_slots)
        return self.scheduler.grant(round_)

    def _disclose(self, shown_in: int) -> Disclosure | None:
        if not self.books.disclosures:
            return None
        disrupted, sub_slot = self.books.disclosures.popleft()
        record = self.books.closed(disrupted)
        if record is None:
            return None
        self.books.show(disrupted, sub_slot, shown_in)
        return disclose(record, self._geometry, sub_slot)

    # -- the life of an epoch -----------------------------------------------------------------

    def change(self, membership: Membership, certificate: Certificate) -> None:
        """Abandon what is open; the next frame begins with this membership and new pads."""
        self.open.clear()
        self.books.change(membership, certificate, self.next_round)
        self.stock = self._new_stock(self.next_round)
        self.announcer.certificate = certificate

    def retire(self, successor: bytes) -> None:
        """Let the epoch end soon. Nobody gets a turn in the last window of rounds, so that every
        cell is reported before the end."""
        last_round = self.next_round + 2 * self._geometry.window
        self.announcer.retirement = Retirement(last_round=last_round, successor=successor)

    @property
    def busy(self) -> bool:
        """Something is to be said at once, though perhaps nobody has reserved."""
        announcer = self.announcer
        return bool(
            not self.scheduler.idle
            or announcer.waiting
            or announcer.certificate
            or announcer.retirement
            or self.books.disclosures
        )

    def _new_stock(self, first_round: int) -> PadStock:
        return PadStock(
            geometry=self._geometry,
            guards=self._epoch.guard_count,
            ahead_batches=self._options.ahead_batches,
            first_round=first_round,
        )
