"""Property 8, joins: the next epoch is set up in the background and takes over without a gap."""

from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeVar

import pytest

from headtail_prifi.core.errors import FrameError, StateError
from headtail_prifi.core.events import (
    CellArrived,
    CellDelivered,
    CellReturned,
    EpochEnding,
    EpochOver,
    Event,
)
from headtail_prifi.core.geometry import Geometry
from headtail_prifi.core.seat import RELAY, Role, Seat, client_seat, guard_seat
from headtail_prifi.crypto.cipher import default_cipher
from headtail_prifi.crypto.entropy import SeededEntropy
from headtail_prifi.crypto.group import default_group
from headtail_prifi.round.client import ClientCore
from headtail_prifi.round.guard import GuardCore
from headtail_prifi.round.relay import RelayCore
from headtail_prifi.round.succession import (
    ClientSuccession,
    GuardSuccession,
    RelaySuccession,
)
from headtail_prifi.setup.memory import Enrolment, Finished, SetupSwarm, enrol

E = TypeVar("E", bound=Event)

GUARDS = 2
TICK_S = 0.01


def geometry_of(clients: int, cell_bytes: int = 128) -> Geometry:
    return Geometry(clients=clients, cell_bytes=cell_bytes, window=2)


def set_up(
    enrolment: Enrolment, number: int, members: tuple[int, ...], cell_bytes: int
) -> Finished:
    setup = SetupSwarm(
        enrolment,
        SeededEntropy(b"epoch%d" % number),
        number=number,
        last_number=number - 1,
        members=members,
        parameters=geometry_of(len(members), cell_bytes).encode(),
    )
    setup.run()
    return setup.finished()


@dataclass
class Net:
    """Parties by their seat in the roster; every frame takes one tick."""

    enrolment: Enrolment
    relay: RelaySuccession
    guards: dict[int, GuardSuccession] = field(default_factory=dict)
    clients: dict[int, ClientSuccession] = field(default_factory=dict)
    now: float = 0.0
    frames: deque[tuple[Seat, Seat, bytes]] = field(default_factory=deque)
    events: list[tuple[float, Seat, Event]] = field(default_factory=list)

    @classmethod
    def of(cls, enrolment: Enrolment, finished: Finished) -> "Net":
        core = RelayCore(epoch=finished.epoch, signing_key=enrolment.relay, cipher=default_cipher())
        net = cls(enrolment, RelaySuccession(finished.epoch, core))
        net.stage(finished, first=True)
        return net

    def stage(self, finished: Finished, first: bool = False) -> None:
        epoch, cipher = finished.epoch, default_cipher()
        if not first:
            relay = RelayCore(epoch=epoch, signing_key=self.enrolment.relay, cipher=cipher)
            self.relay.stage(epoch, relay)
        for guard in finished.guards:
            core = GuardCore(
                epoch=epoch,
                secrets=guard,
                signing_key=self.enrolment.guards[guard.guard],
                cipher=cipher,
                entropy=SeededEntropy(b"guard"),
            )
            if guard.guard in self.guards:
                self.guards[guard.guard].stage(epoch, core)
            else:
                self.guards[guard.guard] = GuardSuccession(epoch, core)
        for secrets in finished.clients:
            member = epoch.members[secrets.client]
            client = ClientCore(
                epoch=epoch,
                secrets=secrets,
                signing_key=self.enrolment.clients[member],
                cipher=cipher,
                entropy=SeededEntropy(b"client%d" % member),
            )
            if member in self.clients:
                self.clients[member].stage(epoch, client)
            else:
                self.clients[member] = ClientSuccession(epoch, client)

    def tick(self) -> None:
        self.now += TICK_S
        parties: dict[Seat, RelaySuccession | GuardSuccession | ClientSuccession] = {
            RELAY: self.relay,
            **{guard_seat(index): core for index, core in self.guards.items()},
            **{client_seat(index): core for index, core in self.clients.items()},
        }
        for source, target, frame in [self.frames.popleft() for _ in range(len(self.frames))]:
            if target == RELAY:
                self.relay.receive(frame, self.now, source)
            elif target.role is Role.GUARD:
                self.guards[target.index].receive(frame, self.now)
            else:
                self.clients[target.index].receive(frame, self.now)
        for seat, party in parties.items():
            timer = party.next_timer()
            if timer is not None and timer <= self.now:
                party.on_timer(self.now)
            while (event := party.next_event()) is not None:
                self.events.append((self.now, seat, event))
            for to, frame in party.to_send(self.now):
                self.frames.append((seat, to, frame))

    def happened(self, kind: type[E], seat: Seat) -> list[E]:
        return [event for _, at, event in self.events if at == seat and isinstance(event, kind)]


@pytest.fixture
def enrolment() -> Enrolment:
    return enrol(6, GUARDS, SeededEntropy(b"enrol"), group=default_group().name)


def test_p8_join_takes_over_without_a_gap_and_without_loss(enrolment: Enrolment) -> None:
    net = Net.of(enrolment, set_up(enrolment, 1, (0, 1, 2, 4), 128))
    net.relay.current.start(0.0)
    ids = [net.clients[1].current.send(b"%d" % number) for number in range(30)]
    for _ in range(20):
        net.tick()
    second = set_up(enrolment, 2, (0, 1, 2, 3, 5), 128)
    net.stage(second)
    for _ in range(10):
        net.tick()
    ids += [net.clients[1].current.send(b"%d" % number) for number in range(30, 60)]
    net.relay.retire(net.now)
    for _ in range(150):
        net.tick()
    heard = [event.body for event in net.happened(CellArrived, RELAY)]
    assert heard == [b"%d" % number for number in range(60)]
    delivered = [event.id for event in net.happened(CellDelivered, client_seat(1))]
    assert delivered == ids
    arrivals = [at for at, _, event in net.events if isinstance(event, CellArrived)]
    gaps = [after - before for before, after in pairwise(arrivals)]
    assert max(gaps) <= 10 * TICK_S
    assert len(net.happened(EpochEnding, RELAY)) == 1
    for seat in (RELAY, client_seat(0), client_seat(4)):
        (over,) = net.happened(EpochOver, seat)
        assert isinstance(over, EpochOver)
        assert over.successor == second.epoch.epoch_id
    net.clients[5].current.send(b"the newcomer")
    for _ in range(30):
        net.tick()
    assert net.happened(CellArrived, RELAY)[-1].body == b"the newcomer"
    assert net.relay.current.membership.clients == (0, 1, 2, 3, 4)


def test_p8_join_returns_what_does_not_fit_the_new_cells(enrolment: Enrolment) -> None:
    net = Net.of(enrolment, set_up(enrolment, 1, (0, 1, 2), 300))
    net.relay.current.start(0.0)
    net.stage(set_up(enrolment, 2, (0, 1, 2), 128))
    net.relay.retire(net.now)
    sent = {net.clients[0].current.send(bytes(200)): bytes(200) for _ in range(12)}
    small = net.clients[0].current.send(b"small")
    for _ in range(60):
        net.tick()
    returned = net.happened(CellReturned, client_seat(0))
    delivered = {event.id for event in net.happened(CellDelivered, client_seat(0))}
    assert {event.id: event.body for event in returned} == {
        item: body for item, body in sent.items() if item not in delivered
    }
    assert returned
    assert small in delivered
    assert net.clients[0].current.send(b"later") > small


def test_p8_join_needs_a_staged_epoch_with_a_name_of_its_own(enrolment: Enrolment) -> None:
    finished = set_up(enrolment, 1, (0, 1, 2), 128)
    net = Net.of(enrolment, finished)
    with pytest.raises(StateError):
        net.relay.retire(0.0)
    with pytest.raises(StateError):
        net.stage(finished)


def test_p8_join_keeps_frames_of_strangers_out(enrolment: Enrolment) -> None:
    net = Net.of(enrolment, set_up(enrolment, 1, (0, 1, 2), 128))
    net.relay.current.start(0.0)
    while not any(target == client_seat(0) for _, target, _ in net.frames):
        net.tick()
    frame = next(frame for source, target, frame in net.frames if target == client_seat(0))
    with pytest.raises(FrameError):
        net.relay.receive(frame, net.now, client_seat(4))
    other = bytearray(frame)
    other[8] ^= 1
    with pytest.raises(FrameError):
        net.clients[0].receive(bytes(other), net.now)
    with pytest.raises(FrameError):
        net.guards[0].receive(bytes(other), net.now)
