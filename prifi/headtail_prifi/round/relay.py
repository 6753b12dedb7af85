"""The relay of the running DC-net: opens rounds, adds up, schedules, and keeps the books.

It is trusted to be there, not to be honest. In one round it broadcasts who owns the sub-slots and
what came in earlier rounds (signed, hashed into the history), gathers a cipher of every client of
the membership, adds the guards' pads that came ahead, takes the lock off, and hands out what the
owners said. Rounds close in order; up to the geometry's window of them are open.
"""

from collections import deque
from enum import StrEnum
from typing import Final

import numpy as np

from headtail_prifi.blame.prosecutor import Outcome, Prosecutor, ProsecutorState
from headtail_prifi.core.body import Body, decode_body, frame_of
from headtail_prifi.core.errors import FrameError, StateError, UnexpectedFrameError
from headtail_prifi.core.events import (
    CellArrived,
    ClientDropped,
    EpochEnding,
    EpochOver,
    Event,
    MembershipChanged,
    VerdictReached,
)
from headtail_prifi.core.geometry import Geometry
from headtail_prifi.core.header import (
    HEADER_BYTES,
    VOUCHED,
    Buffer,
    Header,
    Kind,
    read_header,
    short_id,
)
from headtail_prifi.core.membership import Certificate
from headtail_prifi.core.messages import NOBODY, Endorse, Grant, Nack, Retirement
from headtail_prifi.core.seat import CLIENTS, RELAY, Role, Seat, client_seat, guard_seat
from headtail_prifi.crypto.cipher import PadCipher
from headtail_prifi.crypto.errors import SignatureError
from headtail_prifi.crypto.signature import SIGNATURE_BYTES, SigningKey
from headtail_prifi.round.announcer import Announcer
from headtail_prifi.round.books import Books
from headtail_prifi.round.cell import CellKind
from headtail_prifi.round.options import RelayOptions, retained_rounds
from headtail_prifi.round.pads import MAX_BATCH_ROUNDS
from headtail_prifi.round.reading import disclose, read_round
from headtail_prifi.round.record import RoundRecord
from headtail_prifi.round.rekeying import Rekeying
from headtail_prifi.round.schedule import Scheduler, decode_owners, encode_owners
from headtail_prifi.round.stock import PadStock
from headtail_prifi.round.voucher import closes_window, window_start
from headtail_prifi.setup.core import Outgoing
from headtail_prifi.setup.epoch import Epoch
from headtail_prifi.setup.roster import Membership


class RelayState(StrEnum):
    """Whether rounds run, and whether a membership is being changed."""

    READY = "ready"
    RUNNING = "running"
    REKEYING = "rekeying"
    OVER = "over"


class _Milestone(StrEnum):
    STARTED = "started"
    PROPOSED = "membership proposed"
    CERTIFIED = "membership certified"
    STOPPED = "stopped"


_FROM_CLIENTS: Final = frozenset(
    {Kind.UP, Kind.NACK, Kind.LEAVE, Kind.VOUCHED, Kind.SUBMIT, Kind.REVEAL, Kind.OPENING}
)
_FROM_GUARDS: Final = frozenset(
    {Kind.PADS, Kind.ENDORSE, Kind.MIXED, Kind.SHARES, Kind.REVEAL, Kind.OPENING}
)
_KINDS: Final = _FROM_CLIENTS | _FROM_GUARDS
_TABLE: Final[dict[RelayState, dict[Kind | _Milestone, RelayState]]] = {
    RelayState.READY: {
        Kind.PADS: RelayState.READY,
        _Milestone.STARTED: RelayState.RUNNING,
        _Milestone.STOPPED: RelayState.OVER,
    },
    RelayState.RUNNING: {
        **dict.fromkeys(_KINDS, RelayState.RUNNING),
        _Milestone.PROPOSED: RelayState.REKEYING,
        _Milestone.STOPPED: RelayState.OVER,
    },
    RelayState.REKEYING: {
        **dict.fromkeys(_KINDS, RelayState.REKEYING),
        _Milestone.CERTIFIED: RelayState.RUNNING,
        _Milestone.STOPPED: RelayState.OVER,
    },
    RelayState.OVER: {},
}
_BLAME_KINDS: Final = frozenset(
    {Kind.VOUCHED, Kind.REVEAL, Kind.OPENING, Kind.SUBMIT, Kind.MIXED, Kind.SHARES}
)


class RelayCore:
    """Sans-IO. The shell says from whom a frame comes, and fans out what goes to a whole role.

    Raises PeerError for a frame that its sender must not send, and changes nothing then.
    """

    def __init__(
        self,
        *,
        epoch: Epoch,
        signing_key: SigningKey,
        cipher: PadCipher,
        options: RelayOptions | None = None,
    ) -> None:
        self._epoch = epoch
        self._cipher = cipher
        self._options = options or RelayOptions()
        self._short_id = short_id(epoch.epoch_id)
        self._geometry = Geometry.decode(epoch.parameters, clients=epoch.client_count)
        self._books = Books(epoch, retain=retained_rounds(epoch.client_count))
        self._scheduler = Scheduler(self._geometry)
        self._stock = self._new_stock(0)
        self._announcer = Announcer(
            epoch_id=epoch.epoch_id,
            geometry=self._geometry,
            signing_key=signing_key,
            max_waiting=self._options.max_down_waiting,
        )
        self._prosecutor = Prosecutor(
            epoch=epoch,
            geometry=self._geometry,
            books=self._books,
            signing_key=signing_key,
            cipher=cipher,
            options=self._options,
        )
        self._open: deque[RoundRecord] = deque()
        self._leaving: set[int] = set()
        self._rekeying: Rekeying | None = None
        self._outbox: deque[Outgoing] = deque()
        self._events: deque[Event] = deque()
        self._open_at = 0.0
        self._idle_s = 0.0
        self._late_at: float | None = None
        self._oldest_since = 0.0
        self.state = RelayState.READY
        self._grant()

    # -- for the program around it ------------------------------------------------------------

    def start(self, now: float) -> None:
        """Begin with round 0. Until then only pads are gathered."""
        self._reach(_Milestone.STARTED)
        self._open_at = now
        self._open_rounds(now)

    def broadcast(self, data: bytes, now: float) -> None:
        """Send data to all clients, in order with everything else downstream.

        Raises BacklogFullError when too much waits, StateError when the epoch is over.
        """
        if self.state is RelayState.OVER:
            raise StateError("nothing can be broadcast in an epoch that is over")
        self._announcer.add_data(data)
        self._wake(now)

    def retire(self, successor: bytes, now: float) -> int:
        """Let the epoch end a few rounds from now; returns its last round.

        Nobody gets a turn in the last rounds, so that every cell is reported before the end.
        """
        window = self._geometry.window
        last_round = self._announcer.next_round + 2 * window
        self._announcer.retirement = Retirement(last_round=last_round, successor=successor)
        self._wake(now)
        return last_round

    def drop(self, client: int, reason: str, now: float) -> None:
        """Leave a client out of the next membership."""
        if client in self._leaving or client not in self._books.membership.clients:
            return
        self._leaving.add(client)
        self._events.append(ClientDropped(client=client, reason=reason))
        self._rekey(now)

    @property
    def membership(self) -> Membership:
        """The clients that take part now."""
        return self._books.membership

    @property
    def next_round(self) -> int:
        """The round that opens next."""
        return self._announcer.next_round

    # -- sans-IO ------------------------------------------------------------------------------

    def receive(self, frame: Buffer, now: float, source: Seat) -> None:
        """A frame from the party at `source`, as the link's authentication tells."""
        header = read_header(frame)
        if header.epoch != self._short_id or header.sender != source.index:
            raise FrameError("a frame of another epoch or another sender")
        allowed = _FROM_CLIENTS if source.role is Role.CLIENT else _FROM_GUARDS
        follows = _TABLE[self.state].get(header.kind)
        if header.kind not in allowed or follows is None:
            raise UnexpectedFrameError(f"{header.kind.name} of {source} while {self.state}")
        match header.kind:
            case Kind.UP:
                self._on_up(bytes(frame), header, now)
            case Kind.PADS:
                self._on_pads(frame, header, source, now)
            case Kind.NACK:
                self._on_nack(decode_body(Nack, _body(frame)), header, source)
            case Kind.ENDORSE:
                self._on_endorse(decode_body(Endorse, _body(frame)), header, source, now)
            case Kind.LEAVE:
                self.drop(source.index, "it left", now)
            case _:
                self._prosecutor.receive(frame, header, source, now)
                self._absorb(now)

    def to_send(self, now: float) -> list[Outgoing]:
        """Frames that must leave now, in order."""
        frames = list(self._outbox)
        self._outbox.clear()
        return frames

    def next_event(self) -> Event | None:
        """What happened."""
        return self._events.popleft() if self._events else None

    def next_timer(self) -> float | None:
        """When `on_timer` wants to be called, if at all."""
        if self.state in (RelayState.READY, RelayState.OVER):
            return None
        timers = [self._late_at, self._prosecutor.next_timer()]
        if self._rekeying is not None:
            timers.append(self._rekeying.chase.next_timer())
        if self._may_open:
            timers.append(self._open_at)
        return min((timer for timer in timers if timer is not None), default=None)

    def on_timer(self, now: float) -> None:
        """Open the next round, ask again, give up on whoever is silent."""
        if self.state in (RelayState.READY, RelayState.OVER):
            return
        self._open_rounds(now)
        if self._late_at is not None and now >= self._late_at:
            self._on_late(now)
        if self._rekeying is not None:
            self._chase_guards(self._rekeying, now)
        self._prosecutor.on_timer(now)
        self._absorb(now)

    # -- gathering ----------------------------------------------------------------------------

    def _on_up(self, frame: bytes, header: Header, now: float) -> None:
        size = HEADER_BYTES + self._geometry.upstream_bytes
        vouched = closes_window(header.round)
        if len(frame) != size + vouched * SIGNATURE_BYTES or header.flags != vouched * VOUCHED:
            raise FrameError(f"an upstream frame of {len(frame)} bytes in round {header.round}")
        if header.round >= self._announcer.next_round:
            raise UnexpectedFrameError(f"a cipher for round {header.round}, which is not open")
        if not self._open or header.version != self._books.membership.version:
            return
        offset = header.round - self._open[0].round
        if offset < 0:
            return
        record = self._open[offset]
        if header.sender not in record.missing:
            return
        cipher = record.add(header.sender, frame)
        self._books.log(client_seat(header.sender)).add(header.round, cipher)
        if not record.missing and offset == 0:
            self._close_rounds(now)

    def _on_pads(self, frame: Buffer, header: Header, source: Seat, now: float) -> None:
        width = self._geometry.stream_bytes
        data = _body(frame)[:-SIGNATURE_BYTES]
        count, rest = divmod(len(data), width)
        if rest or not 0 < count <= MAX_BATCH_ROUNDS or header.flags != VOUCHED:
            raise FrameError(f"pads of {len(frame)} bytes")
        if header.version != self._books.membership.version:
            return
        rows = np.frombuffer(data, np.uint8).reshape(count, width)
        self._stock.store(source.index, header.round, rows)
        log = self._books.log(source)
        for offset, row in enumerate(rows):
            log.add(header.round + offset, row.data)
        voucher = bytes(frame[-SIGNATURE_BYTES:])
        try:
            log.accept(header.round, count, voucher, self._epoch.guard_verify_key(source.index))
        except SignatureError:
            self._stop(f"{source} does not vouch for its pads")
            return
        if self.state is not RelayState.READY:
            self._close_rounds(now)

    # -- closing ------------------------------------------------------------------------------

    def _close_rounds(self, now: float) -> None:
        while self._open and not self._open[0].missing:
            if self._stock.lacking(self._open[0].round) or self.state is RelayState.OVER:
                break
            self._close(self._open.popleft(), now)
            self._oldest_since = now
        self._watch_oldest(now)
        self._grant()
        self._open_rounds(now)

    def _close(self, record: RoundRecord, now: float) -> None:
        opened = record.close(self._stock.take(record.round))
        reading = read_round(record, opened, self._geometry, self._cipher)
        for slot, cell in reading.cells:
            self._scheduler.on_cell(record.round, slot, cell.backlog)
            self._prosecutor.on_clean(slot)
            if cell.kind is CellKind.DATA:
                self._events.append(CellArrived(round=record.round, slot=slot, body=cell.body))
            else:
                self._prosecutor.on_accusation(cell.body, slot, now)
        for slot in reading.silent:
            self._scheduler.on_silence(slot)
        for sub_slot, slot in reading.disrupted:
            self._scheduler.on_disruption(record.round, slot)
            self._books.disclosures.append((record.round, sub_slot))
            self._prosecutor.on_jam(slot, now)
        self._scheduler.on_reservations(record.round, reading.report.reservations)
        self._announcer.add_report(reading.report)
        if closes_window(record.round):
            self._check_vouchers(record, now)
        self._absorb(now)
        self._back_off(now)

    def _check_vouchers(self, record: RoundRecord, now: float) -> None:
        for client, frame in record.frames.items():
            log = self._books.log(client_seat(client))
            first = window_start(record.round, log.first_round)
            voucher = frame[-SIGNATURE_BYTES:]
            key = self._epoch.client_verify_key(client)
            try:
                log.accept(first, record.round - first + 1, voucher, key)
            except SignatureError:
                self.drop(client, "it does not vouch for what it sent", now)

    def _back_off(self, now: float) -> None:
        options = self._options
        if not (self._scheduler.idle and not self._announcer.waiting) or self._busy:
            self._idle_s = 0.0
        else:
            self._idle_s = min(options.idle_max_s, max(options.idle_min_s, 2 * self._idle_s))
        self._open_at = now + self._idle_s

    @property
    def _busy(self) -> bool:
        """Something must go on at full speed, though nobody has reserved."""
        return bool(
            self._books.disclosures
            or self._announcer.certificate
            or self._announcer.retirement
            or self._prosecutor.state is not ProsecutorState.QUIET
        )

    def _wake(self, now: float) -> None:
        self._idle_s = 0.0
        self._open_at = now
        if self.state is not RelayState.READY:
            self._open_rounds(now)

    # -- opening ------------------------------------------------------------------------------

    @property
    def _may_open(self) -> bool:
        retirement = self._announcer.retirement
        return (
            self.state in (RelayState.RUNNING, RelayState.REKEYING)
            and len(self._open) < self._geometry.window
            and (retirement is None or self._announcer.next_round <= retirement.last_round)
        )

    def _open_rounds(self, now: float) -> None:
        while self._may_open and now >= self._open_at:
            self._open_round(now)
        retirement = self._announcer.retirement
        if (
            retirement is not None
            and not self._open
            and self._announcer.next_round > retirement.last_round
            and self.state is not RelayState.OVER
        ):
            self._stop("succeeded", retirement.successor)

    def _open_round(self, now: float) -> None:
        books, announcer = self._books, self._announcer
        round_ = announcer.next_round
        owners = self._owners(round_)
        disclosure = None
        if books.disclosures:
            disrupted, sub_slot = books.disclosures.popleft()
            record = books.closed(disrupted)
            assert record is not None
            disclosure = disclose(record, self._geometry, sub_slot)
            books.show(disrupted, sub_slot, round_)
        for reported in announcer.reported:
            books.show(reported, None, round_)
        before = announcer.link
        down = announcer.announce(owners, books.membership.version, disclosure)
        record = RoundRecord(
            geometry=self._geometry,
            round_=round_,
            version=books.membership.version,
            owners=decode_owners(owners),
            down=down,
            before=before,
            link=announcer.link,
            members=books.membership.clients,
            opened_at=now,
        )
        books.enter(record)
        self._open.append(record)
        self._outbox.append(Outgoing(CLIENTS, down))
        if len(self._open) == 1:
            self._oldest_since = now
            self._watch_oldest(now)
        retirement = announcer.retirement
        if retirement is not None and round_ == retirement.last_round:
            self._events.append(EpochEnding(successor=retirement.successor))

    def _owners(self, round_: int) -> bytes:
        retirement = self._announcer.retirement
        if retirement is not None and round_ > retirement.last_round - self._geometry.window:
            return encode_owners((NOBODY,) * self._geometry.sub_slots)
        return self._scheduler.grant(round_)

    # -- loss ---------------------------------------------------------------------------------

    def _watch_oldest(self, now: float) -> None:
        self._late_at = now + self._options.resend_s if self._open else None

    def _on_late(self, now: float) -> None:
        """The oldest round waits for somebody: ask again, or go on without."""
        oldest = self._open[0]
        clients = sorted(oldest.missing - self._leaving)
        guards = self._stock.lacking(oldest.round)
        self._late_at = now + self._options.resend_s
        if now - self._oldest_since >= self._options.patience_s:
            if guards:
                self._stop(f"{guard_seat(guards[0])} is silent")
                return
            for client in clients:
                self.drop(client, "it is silent", now)
            return
        for client in clients:
            self._outbox.append(Outgoing(client_seat(client), oldest.down))
        for guard in guards:
            self._send_grant(*self._stock.again(guard, oldest.round))

    def _on_nack(self, nack: Nack, header: Header, source: Seat) -> None:
        for round_ in range(header.round, header.round + nack.count):
            down = self._books.frame(round_)
            if down is not None:
                self._outbox.append(Outgoing(source, down))

    def _grant(self) -> None:
        for guard, first, count in self._stock.wanted(self.next_round):
            self._send_grant(guard, first, count)

    def _send_grant(self, guard: int, first: int, count: int) -> None:
        self._send(guard_seat(guard), Kind.GRANT, first, Grant(count=count))

    # -- membership ---------------------------------------------------------------------------

    def _rekey(self, now: float) -> None:
        """Propose a membership without those who leave, unless one is being endorsed already."""
        if self.state is not RelayState.RUNNING:
            return
        current = self._books.membership
        leaving = sorted(self._leaving & set(current.clients))
        if len(current.clients) - len(leaving) < self._epoch.roster.min_clients:
            self._stop("too few clients are left to hide among")
            return
        self._rekeying = Rekeying(self._epoch, current.without(*leaving), self._options, now)
        self._outbox.extend(self._rekeying.proposals())
        self._reach(_Milestone.PROPOSED)

    def _on_endorse(self, endorse: Endorse, header: Header, source: Seat, now: float) -> None:
        if self._rekeying is None:
            return
        certificate = self._rekeying.on_endorse(source, header, endorse)
        if certificate is not None:
            membership = self._rekeying.membership
            self._rekeying = None
            self._reach(_Milestone.CERTIFIED)
            self._change(membership, certificate, now)

    def _change(self, membership: Membership, certificate: Certificate, now: float) -> None:
        """Abandon the open rounds and go on with new pads."""
        first_round = self._announcer.next_round
        self._open.clear()
        self._books.change(membership, certificate, first_round)
        self._prosecutor.on_membership()
        self._stock = self._new_stock(first_round)
        self._announcer.certificate = certificate
        self._leaving &= set(membership.clients)
        self._events.append(MembershipChanged(membership=membership, first_round=first_round))
        self._late_at = None
        self._grant()
        self._wake(now)
        if self._leaving:
            self._rekey(now)

    def _chase_guards(self, rekeying: Rekeying, now: float) -> None:
        silent = rekeying.chase.expired(now)
        if silent:
            self._stop(f"{silent[0]} is silent")
            return
        self._outbox.extend(rekeying.chase.due(now))

    def _new_stock(self, first_round: int) -> PadStock:
        return PadStock(
            geometry=self._geometry,
            guards=self._epoch.guard_count,
            ahead_batches=self._options.ahead_batches,
            first_round=first_round,
        )

    # -- blame --------------------------------------------------------------------------------

    def _absorb(self, now: float) -> None:
        """Take over what the prosecutor wants sent and what it decided."""
        self._outbox.extend(self._prosecutor.outbox)
        self._prosecutor.outbox.clear()
        while self._prosecutor.outcomes:
            self._execute(self._prosecutor.outcomes.popleft(), now)

    def _execute(self, outcome: Outcome, now: float) -> None:
        ruling = outcome.ruling
        self._events.append(
            VerdictReached(
                culprit=ruling.culprit,
                slot=ruling.slot,
                charge=ruling.charge,
                evidence=outcome.evidence,
            )
        )
        if ruling.culprit is None:
            assert ruling.slot is not None
            self._scheduler.ban(ruling.slot)
        elif ruling.culprit.role is Role.CLIENT:
            self.drop(ruling.culprit.index, ruling.charge, now)
        else:
            self._stop(f"{ruling.culprit} {ruling.charge}")

    # -- small parts --------------------------------------------------------------------------

    def _send(self, to: Seat, kind: Kind, round_: int, body: Body) -> None:
        version = self._books.membership.version
        header = Header(kind, 0, RELAY.index, round_, self._short_id, version)
        self._outbox.append(Outgoing(to, frame_of(header, body)))

    def _reach(self, milestone: _Milestone) -> None:
        follows = _TABLE[self.state].get(milestone)
        if follows is None:
            raise StateError(f"{milestone} while {self.state}")
        self.state = follows

    def _stop(self, reason: str, successor: bytes | None = None) -> None:
        if self.state is not RelayState.OVER:
            self._reach(_Milestone.STOPPED)
            self._events.append(EpochOver(reason=reason, successor=successor))

    def __repr__(self) -> str:
        rounds = f"rounds {self._open[0].round}.." if self._open else "round "
        return (
            f"RelayCore({self.state}, {rounds}{self.next_round}, "
            f"membership {self.membership.version} of {len(self.membership.clients)}, "
            f"blame {self._prosecutor.state})"
        )


def _body(frame: Buffer) -> memoryview:
    return memoryview(frame)[HEADER_BYTES:]
