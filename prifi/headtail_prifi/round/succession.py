"""From one epoch to the next without a gap: several cores of one party, side by side.

The next epoch is set up in the background and staged: its cores exist, guards pad ahead for it,
nobody speaks in it. When the relay opens the last round of the old epoch, round 0 of the new one
opens too. Frames find their core by the epoch in the header; what a client had not got through in
the old epoch goes on in the new one. So joining costs no outage.

Seats of these classes count in the *roster*, as the shell knows its peers; each epoch has its own
indices, which are translated here.
"""

from collections import deque
from dataclasses import dataclass
from typing import Generic, TypeVar

from headtail_prifi.core.errors import FrameError, StateError
from headtail_prifi.core.events import EpochEnding, EpochOver, Event
from headtail_prifi.core.header import Buffer, read_header, short_id
from headtail_prifi.core.seat import ALL, Role, Seat
from headtail_prifi.round.client import ClientCore
from headtail_prifi.round.guard import GuardCore
from headtail_prifi.round.relay import RelayCore
from headtail_prifi.setup.core import Outgoing
from headtail_prifi.setup.epoch import Epoch

C = TypeVar("C", ClientCore, GuardCore, RelayCore)


@dataclass(frozen=True, slots=True)
class Staged(Generic[C]):
    """A core and its epoch."""

    epoch: Epoch
    core: C


class Succession(Generic[C]):
    """The cores of one party, oldest first; the oldest whose epoch is not over is current.

    A core whose epoch is over still answers what comes late, until another one is staged.
    """

    def __init__(self, epoch: Epoch, core: C) -> None:
        self._staged: deque[Staged[C]] = deque([Staged(epoch, core)])
        self._over: list[Staged[C]] = []
        self._events: deque[Event] = deque()

    @property
    def current(self) -> C:
        """The core of the epoch in force, or of the last one when all are over."""
        return self._in_force[0].core

    def stage(self, epoch: Epoch, core: C) -> None:
        """Add the core of an epoch that was set up.

        Raises StateError when its short id is that of another one here: set up once more.
        """
        if short_id(epoch.epoch_id) in [short_id(each.epoch.epoch_id) for each in self._staged]:
            raise StateError("two epochs that frames can't tell apart")
        self._staged = deque(each for each in self._staged if each not in self._over)
        self._over.clear()
        self._staged.append(Staged(epoch, core))

    @property
    def _in_force(self) -> list[Staged[C]]:
        running = [each for each in self._staged if each not in self._over]
        return running or [self._staged[-1]]

    def to_send(self, now: float) -> list[Outgoing]:
        """Frames that must leave now, of all epochs."""
        return [
            outgoing
            for each in self._staged
            for outgoing in self._translated(each, each.core.to_send(now))
        ]

    def next_event(self) -> Event | None:
        """What happened in any of the epochs."""
        for each in tuple(self._staged):
            while (event := each.core.next_event()) is not None:
                self._events.append(event)
                self._on_event(each, event)
        return self._events.popleft() if self._events else None

    def next_timer(self) -> float | None:
        """When `on_timer` wants to be called, if at all."""
        timers = [each.core.next_timer() for each in self._staged]
        return min((timer for timer in timers if timer is not None), default=None)

    def on_timer(self, now: float) -> None:
        """Passed on to all epochs."""
        for each in self._staged:
            each.core.on_timer(now)

    def _of_frame(self, frame: Buffer) -> Staged[C]:
        wanted = read_header(frame).epoch
        for each in self._staged:
            if short_id(each.epoch.epoch_id) == wanted:
                return each
        raise FrameError("a frame of an epoch that is not known here")

    def _translated(self, staged: Staged[C], outgoing: list[Outgoing]) -> list[Outgoing]:
        """Destinations as seats of the roster; a client or guard sends to the relay only."""
        return outgoing

    def _on_event(self, staged: Staged[C], event: Event) -> None:
        """An epoch that is over gives way to the next."""
        if isinstance(event, EpochOver):
            self._over.append(staged)


class GuardSuccession(Succession[GuardCore]):
    """A guard's cores."""

    def receive(self, frame: Buffer, now: float) -> None:
        """A frame from the relay."""
        self._of_frame(frame).core.receive(frame, now)


class ClientSuccession(Succession[ClientCore]):
    """A client's cores. What it says goes out in the current epoch, or else in the next."""

    def receive(self, frame: Buffer, now: float) -> None:
        """A frame from the relay."""
        self._of_frame(frame).core.receive(frame, now)

    def _on_event(self, staged: Staged[ClientCore], event: Event) -> None:
        super()._on_event(staged, event)
        if isinstance(event, EpochOver) and self.current is not staged.core:
            self.current.adopt(staged.core.drain())


class RelaySuccession(Succession[RelayCore]):
    """The relay's cores. `retire` makes way for the epoch that was staged last."""

    def __init__(self, epoch: Epoch, core: RelayCore) -> None:
        super().__init__(epoch, core)
        self._now = 0.0

    def receive(self, frame: Buffer, now: float, source: Seat) -> None:
        """A frame from a party by its seat in the roster; FrameError if it is not in the epoch."""
        self._now = now
        staged = self._of_frame(frame)
        staged.core.receive(frame, now, _in_epoch(staged.epoch, source))

    def on_timer(self, now: float) -> None:
        self._now = now
        super().on_timer(now)

    def retire(self, now: float) -> None:
        """Let the current epoch end in favour of the next; StateError when none is staged."""
        self._now = now
        if len(self._in_force) < 2:
            raise StateError("no epoch is staged to go on with")
        self.current.retire(self._in_force[1].epoch.epoch_id, now)

    def _translated(self, staged: Staged[RelayCore], outgoing: list[Outgoing]) -> list[Outgoing]:
        return [
            Outgoing(each, frame) for to, frame in outgoing for each in _in_roster(staged.epoch, to)
        ]

    def _on_event(self, staged: Staged[RelayCore], event: Event) -> None:
        super()._on_event(staged, event)
        if isinstance(event, EpochEnding):
            self._in_force[1].core.start(self._now)


def _in_epoch(epoch: Epoch, seat: Seat) -> Seat:
    if seat.role is not Role.CLIENT:
        return seat
    if seat.index not in epoch.members:
        raise FrameError(f"{seat} is not in this epoch")
    return Seat(Role.CLIENT, epoch.members.index(seat.index))


def _in_roster(epoch: Epoch, seat: Seat) -> list[Seat]:
    """Seats of the roster; a broadcast to clients goes to those of the epoch."""
    if seat.role is not Role.CLIENT:
        return [seat]
    if seat.index == ALL:
        return [Seat(Role.CLIENT, member) for member in epoch.members]
    return [Seat(Role.CLIENT, epoch.members[seat.index])]
