"""How the relay runs an accusation shuffle: call, collect, mix guard by guard, open."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from headtail_prifi.blame.messages import Call, Mix, Unmask
from headtail_prifi.blame.mixing import Shuffle, open_shuffle
from headtail_prifi.core.body import Body, frame_of
from headtail_prifi.core.chase import Chase
from headtail_prifi.core.header import Buffer, Kind
from headtail_prifi.core.seat import RELAY, Seat, client_seat, guard_seat
from headtail_prifi.crypto.group import Point
from headtail_prifi.crypto.mix import Row
from headtail_prifi.round.options import RelayOptions
from headtail_prifi.setup.core import Outgoing


class ConvenerState(StrEnum):
    """How far a shuffle is."""

    CALLING = "calling"
    MIXING = "mixing"
    UNMASKING = "unmasking"
    DONE = "done"


class _Milestone(StrEnum):
    ALL_SUBMITTED = "all submitted"
    ALL_MIXED = "all mixed"
    ALL_OPENED = "all opened"


_TABLE: Final[dict[ConvenerState, dict[Kind | _Milestone, ConvenerState]]] = {
    ConvenerState.CALLING: {
        Kind.SUBMIT: ConvenerState.CALLING,
        _Milestone.ALL_SUBMITTED: ConvenerState.MIXING,
    },
    ConvenerState.MIXING: {
        Kind.MIXED: ConvenerState.MIXING,
        _Milestone.ALL_MIXED: ConvenerState.UNMASKING,
    },
    ConvenerState.UNMASKING: {
        Kind.SHARES: ConvenerState.UNMASKING,
        _Milestone.ALL_OPENED: ConvenerState.DONE,
    },
    ConvenerState.DONE: {},
}


class Convener:
    """One shuffle from the relay's side. Raises PeerError for a frame that does not hold: its
    author broke the shuffle."""

    def __init__(self, shuffle: Shuffle, options: RelayOptions, now: float) -> None:
        self._shuffle = shuffle
        self._options = options
        self._guards = shuffle.epoch.guard_count
        self._submissions: dict[int, bytes] = {}
        self._first_rows: dict[int, Row] = {}
        self._rows: list[Row] = []
        self._steps: list[bytes] = []
        self._shares: dict[int, tuple[Point, ...]] = {}
        self.outbox: list[Outgoing] = []
        self.messages: list[bytes] = []
        """What was submitted, once the state is DONE."""
        self.state = ConvenerState.CALLING
        call = self._frame(Kind.CALL, Call(number=shuffle.number))
        members = shuffle.membership.clients
        self.chase = self._ask({client_seat(client): call for client in members}, now)

    def receive(self, frame: Buffer, kind: Kind, source: Seat, now: float) -> None:
        """A SUBMIT, MIXED or SHARES. One that comes twice, or late, is ignored."""
        if kind not in _TABLE[self.state]:
            return
        if source not in self.chase.waiting:
            return
        match kind:
            case Kind.SUBMIT:
                self._on_submit(frame, source, now)
            case Kind.MIXED:
                self._on_mixed(frame, source, now)
            case _:
                self._on_shares(frame, source)

    def _on_submit(self, frame: Buffer, source: Seat, now: float) -> None:
        self._first_rows[source.index] = self._shuffle.read_submission(frame, source.index)
        self._submissions[source.index] = bytes(frame)
        self.chase.answered(source)
        if not self.chase.waiting:
            self._rows = [self._first_rows[client] for client in self._shuffle.membership.clients]
            self._reach(_Milestone.ALL_SUBMITTED)
            self._next_mix(now)

    def _on_mixed(self, frame: Buffer, source: Seat, now: float) -> None:
        self._rows = self._shuffle.read_step(frame, source.index, self._rows)
        self._steps.append(bytes(frame))
        if len(self._steps) < self._guards:
            self._next_mix(now)
            return
        self._reach(_Milestone.ALL_MIXED)
        unmask = Unmask(number=self._shuffle.number, steps=tuple(self._steps))
        request = self._frame(Kind.UNMASK, unmask)
        self.chase = self._ask({guard_seat(index): request for index in range(self._guards)}, now)

    def _on_shares(self, frame: Buffer, source: Seat) -> None:
        self._shares[source.index] = self._shuffle.read_shares(frame, source.index, self._rows)
        self.chase.answered(source)
        if not self.chase.waiting:
            self._reach(_Milestone.ALL_OPENED)
            shares = [self._shares[index] for index in range(self._guards)]
            self.messages = open_shuffle(self._shuffle, self._rows, shares)

    def _next_mix(self, now: float) -> None:
        clients = self._shuffle.membership.clients
        mix = Mix(
            number=self._shuffle.number,
            submissions=tuple(self._submissions[client] for client in clients),
            steps=tuple(self._steps),
        )
        seat = guard_seat(len(self._steps))
        self.chase = self._ask({seat: self._frame(Kind.MIX, mix)}, now)

    def _ask(self, frames: Mapping[Seat, bytes], now: float) -> Chase:
        self.outbox.extend(Outgoing(seat, frame) for seat, frame in frames.items())
        return Chase(
            dict(frames),
            now=now,
            resend_s=self._options.resend_s,
            patience_s=self._options.patience_s,
        )

    def _reach(self, milestone: _Milestone) -> None:
        self.state = _TABLE[self.state][milestone]

    def _frame(self, kind: Kind, body: Body) -> bytes:
        return frame_of(self._shuffle.header(kind, RELAY), body)
