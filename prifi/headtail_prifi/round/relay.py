"""The relay of the running DC-net: time, membership, blame, and the rounds (`round/engine.py`).

It is trusted to be there, not to be honest. In one round it broadcasts who owns the sub-slots and
what came in earlier rounds (signed, hashed into the history), gathers a cipher of every client of
the membership, adds the guards' pads that came ahead, takes the lock off, and hands out what the
owners said. Rounds close in order; up to the geometry's window of them are open. The module is
longer than most: it is the one place where those four meet.
"""

from collections import deque
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

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
    Buffer,
    Header,
    Kind,
    read_header,
    short_id,
)
from headtail_prifi.core.membership import Certificate
from headtail_prifi.core.messages import Endorse, Grant, Nack
from headtail_prifi.core.seat import CLIENTS, RELAY, Role, Seat, client_seat, guard_seat
from headtail_prifi.crypto.cipher import PadCipher
from headtail_prifi.crypto.errors import SignatureError
from headtail_prifi.crypto.signature import SigningKey
from headtail_prifi.round.cell import CellKind
from headtail_prifi.round.engine import Closed, Engine
from headtail_prifi.round.options import RelayOptions
from headtail_prifi.round.pacing import Pacer
from headtail_prifi.round.rekeying import Rekeying
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
    RelayState.OVER: dict.fromkeys(_KINDS, RelayState.OVER),
}


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
        self._options = options or RelayOptions()
        self._short_id = short_id(epoch.epoch_id)
        geometry = Geometry.decode(epoch.parameters, clients=epoch.client_count)
        self._engine = Engine(
            epoch=epoch,
            geometry=geometry,
            signing_key=signing_key,
            cipher=cipher,
            options=self._options,
        )
        self._prosecutor = Prosecutor(
            epoch=epoch,
            geometry=geometry,
            books=self._engine.books,
            signing_key=signing_key,
            cipher=cipher,
            options=self._options,
        )
        self._leaving: set[int] = set()
        self._rekeying: Rekeying | None = None
        self._outbox: deque[Outgoing] = deque()
        self._events: deque[Event] = deque()
        self._pacer = Pacer(self._options)
        self._nacked_at: dict[Seat, float] = {}
        self.state = RelayState.READY
        self._grant()

    # -- for the program around it ------------------------------------------------------------

    def start(self, now: float) -> None:
        """Begin with round 0. Until then only pads are gathered."""
        self._reach(_Milestone.STARTED)
        self._wake(now)

    def broadcast(self, data: bytes, now: float) -> None:
        """Send data to all clients, in order with everything else downstream.

        Raises BacklogFullError when too much waits, StateError when the epoch is over.
        """
        if self.state is RelayState.OVER:
            raise StateError("nothing can be broadcast in an epoch that is over")
        self._engine.announcer.add_data(data)
        self._wake(now)

    def retire(self, successor: bytes, now: float) -> None:
        """Let the epoch end a few rounds from now, in favour of the epoch `successor`."""
        self._engine.retire(successor)
        self._wake(now)

    def drop(self, client: int, reason: str, now: float) -> None:
        """Leave a client out of the next membership."""
        self._drop((client,), reason, now)

    @property
    def membership(self) -> Membership:
        """The clients that take part now."""
        return self._engine.books.membership

    @property
    def next_round(self) -> int:
        """The round that opens next."""
        return self._engine.next_round

    # -- sans-IO ------------------------------------------------------------------------------

    def receive(self, frame: Buffer, now: float, source: Seat) -> None:
        """A frame from the party at `source`, as the link's authentication tells."""
        header = read_header(frame)
        if header.epoch != self._short_id or header.sender != source.index:
            raise FrameError("a frame of another epoch or another sender")
        allowed = _FROM_CLIENTS if source.role is Role.CLIENT else _FROM_GUARDS
        if header.kind not in allowed or header.kind not in _TABLE[self.state]:
            raise UnexpectedFrameError(f"{header.kind.name} of {source} while {self.state}")
        if self.state is RelayState.OVER:
            return
        match header.kind:
            case Kind.UP:
                self._engine.add_cipher(bytes(frame), header)
                self._close_rounds(now)
            case Kind.PADS:
                self._on_pads(frame, header, source, now)
            case Kind.NACK:
                self._on_nack(decode_body(Nack, _body(frame)), header, source, now)
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
        timers = self._pacer.timers(may_open=self._engine.may_open)
        timers.append(self._prosecutor.next_timer())
        if self._rekeying is not None:
            timers.append(self._rekeying.chase.next_timer())
        return min((timer for timer in timers if timer is not None), default=None)

    def on_timer(self, now: float) -> None:
        """Open the next round, ask again, give up on whoever is silent."""
        if self.state in (RelayState.READY, RelayState.OVER):
            return
        self._open_rounds(now)
        if self._pacer.late(now):
            self._on_late(now)
        if self._rekeying is not None:
            self._chase_guards(self._rekeying, now)
        self._prosecutor.on_timer(now)
        self._absorb(now)

    # -- rounds -------------------------------------------------------------------------------

    def _on_pads(self, frame: Buffer, header: Header, source: Seat, now: float) -> None:
        try:
            self._engine.add_pads(frame, header, source)
        except SignatureError:
            self._stop(f"{source} does not vouch for its pads")
        if self.state is not RelayState.READY:
            self._close_rounds(now)

    def _close_rounds(self, now: float) -> None:
        if not self._engine.closable:
            return
        while self._engine.closable and self.state is not RelayState.OVER:
            self._on_closed(self._engine.close(), now)
        self._pacer.watch(now, waiting=bool(self._engine.open))
        self._grant()
        self._open_rounds(now)

    def _on_closed(self, closed: Closed, now: float) -> None:
        for slot, cell in closed.reading.cells:
            self._prosecutor.on_clean(slot)
            if cell.kind is CellKind.DATA:
                self._events.append(CellArrived(round=closed.round, slot=slot, body=cell.body))
            else:
                self._prosecutor.on_accusation(cell.body, slot, now)
        for _, slot in closed.reading.disrupted:
            self._prosecutor.on_jam(slot, now)
        if closed.unvouched:
            self._drop(closed.unvouched, "it does not vouch for what it sent", now)
        self._absorb(now)
        blaming = self._prosecutor.state is not ProsecutorState.QUIET
        self._pacer.closed(now, busy=self._engine.busy or blaming)

    def _open_rounds(self, now: float) -> None:
        """Open what the window allows, unless nobody has anything to say yet."""
        engine = self._engine
        while (
            engine.may_open
            and self._pacer.may_open(now)
            and self.state in (RelayState.RUNNING, RelayState.REKEYING)
        ):
            self._outbox.append(Outgoing(CLIENTS, engine.open_round()))
            if len(engine.open) == 1:
                self._pacer.watch(now, waiting=True)
            if engine.exhausted:
                self._events.append(EpochEnding(successor=self._successor))
        if engine.exhausted and not engine.open:
            self._stop("succeeded", self._successor)

    @property
    def _successor(self) -> bytes:
        retirement = self._engine.announcer.retirement
        assert retirement is not None
        return retirement.successor

    def _wake(self, now: float) -> None:
        self._pacer.wake(now)
        self._open_rounds(now)

    # -- loss ---------------------------------------------------------------------------------

    def _on_late(self, now: float) -> None:
        """The oldest round waits for somebody: ask again, or go on without."""
        oldest = self._engine.open[0]
        clients = sorted(oldest.missing - self._leaving)
        guards = self._engine.stock.lacking(oldest.round)
        if self._pacer.lost(now):
            if guards:
                self._stop(f"{guard_seat(guards[0])} is silent")
            self._drop(clients, "it is silent", now)
            return
        for client in clients:
            self._outbox.append(Outgoing(client_seat(client), oldest.down))
        for guard in guards:
            self._send_grant(*self._engine.stock.again(guard, oldest.round))

    def _on_nack(self, nack: Nack, header: Header, source: Seat, now: float) -> None:
        """Send frames again; a client that asks all the time is heard now and then."""
        if now < self._nacked_at.get(source, -1.0) + self._options.nack_min_s:
            return
        self._nacked_at[source] = now
        for round_ in range(header.round, header.round + nack.count):
            down = self._engine.books.frame(round_)
            if down is not None:
                self._outbox.append(Outgoing(source, down))

    def _grant(self) -> None:
        for guard, first, count in self._engine.grants():
            self._send_grant(guard, first, count)

    def _send_grant(self, guard: int, first: int, count: int) -> None:
        self._send(guard_seat(guard), Kind.GRANT, first, Grant(count=count))

    # -- membership ---------------------------------------------------------------------------

    def _drop(self, clients: Sequence[int], reason: str, now: float) -> None:
        leaving = set(clients) & set(self.membership.clients) - self._leaving
        self._leaving |= leaving
        self._events.extend(
            ClientDropped(client=client, reason=reason) for client in sorted(leaving)
        )
        self._rekey(now)

    def _rekey(self, now: float) -> None:
        """Propose a membership without those who leave, unless one is being endorsed already."""
        if self.state is not RelayState.RUNNING:
            return
        current = self.membership
        leaving = sorted(self._leaving & set(current.clients))
        if not leaving:
            return
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
        self._engine.change(membership, certificate)
        self._prosecutor.on_membership()
        self._leaving &= set(membership.clients)
        self._pacer.watch(now, waiting=False)
        self._events.append(
            MembershipChanged(membership=membership, first_round=self._engine.next_round)
        )
        self._grant()
        self._wake(now)
        self._rekey(now)

    def _chase_guards(self, rekeying: Rekeying, now: float) -> None:
        silent = rekeying.chase.expired(now)
        if silent:
            self._stop(f"{silent[0]} is silent")
            return
        self._outbox.extend(rekeying.chase.due(now))

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
            self._engine.scheduler.ban(ruling.slot)
        elif ruling.culprit.role is Role.CLIENT:
            self.drop(ruling.culprit.index, ruling.charge, now)
        else:
            self._stop(f"{ruling.culprit} {ruling.charge}")

    # -- small parts --------------------------------------------------------------------------

    def _send(self, to: Seat, kind: Kind, round_: int, body: Body) -> None:
        version = self.membership.version
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
        opened = self._engine.open
        rounds = f"rounds {opened[0].round}.." if opened else "round "
        return (
            f"RelayCore({self.state}, {rounds}{self.next_round}, "
            f"membership {self.membership.version} of {len(self.membership.clients)}, "
            f"blame {self._prosecutor.state})"
        )


def _body(frame: Buffer) -> memoryview:
    return memoryview(frame)[HEADER_BYTES:]
