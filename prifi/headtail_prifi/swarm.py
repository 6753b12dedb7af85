"""A whole DC-net in one process and in virtual time: the double that tests and benchmarks use.

Events are served in the order of (time, sequence number), so a run is a function of its seed. A
party answers in no time; only links take time, and lose frames.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import Final, NamedTuple, Protocol, TypeVar

from headtail_fabric.errors import PeerError
from headtail_prifi.core.events import CellArrived, Event
from headtail_prifi.core.geometry import Geometry
from headtail_prifi.core.seat import ALL, RELAY, Role, Seat, client_seat, guard_seat
from headtail_prifi.crypto.cipher import PadCipher, default_cipher
from headtail_prifi.crypto.entropy import Entropy, SeededEntropy
from headtail_prifi.crypto.group import default_group
from headtail_prifi.protections import Protections
from headtail_prifi.round.client import ClientCore
from headtail_prifi.round.guard import GuardCore
from headtail_prifi.round.options import ClientOptions, RelayOptions
from headtail_prifi.round.relay import RelayCore
from headtail_prifi.setup.core import Outgoing
from headtail_prifi.setup.memory import Enrolment, Finished, run_setup

Tamper = Callable[[Seat, Seat, bytes], Sequence[bytes]]
"""(from, to, frame) to the frames that arrive instead."""

E = TypeVar("E", bound=Event)

MAX_STEPS: Final = 10_000_000

_ARRIVAL, _TIMER = 0, 1


class Core(Protocol):
    """What the swarm needs of a client, a guard or a relay."""

    def to_send(self, now: float) -> Sequence[Outgoing]: ...
    def next_event(self) -> Event | None: ...
    def next_timer(self) -> float | None: ...
    def on_timer(self, now: float) -> None: ...


class Happened(NamedTuple):
    """An event, and whose."""

    at: float
    seat: Seat
    event: Event


class Sighting(NamedTuple):
    """A frame as an observer of all links sees it."""

    at: float
    source: Seat
    target: Seat
    frame: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """How long a frame takes between the relay and a party, and how often it gets lost."""

    delay_s: Callable[[Seat], float] = field(default=lambda seat: 0.0)
    loss: Callable[[Seat], float] = field(default=lambda seat: 0.0)


class Scene(NamedTuple):
    """A finished set-up: everything that a swarm is made of."""

    enrolment: Enrolment
    finished: Finished


def set_scene(
    clients: int, guards: int, geometry: Geometry, *, seed: bytes = b"scene", group: str = ""
) -> Scene:
    """An epoch for these parties, by a real set-up in memory."""
    enrolment, finished = run_setup(
        clients,
        guards,
        SeededEntropy(seed),
        group=group or default_group().name,
        parameters=geometry.encode(),
    )
    return Scene(enrolment, finished)


class Swarm:
    """All cores of one epoch and the links between them.

    `clients`, `guards` and `relay` hold the cores; a test may put its own misbehaving ones there
    before `start`. `tamper` stands for an adversary on the links.
    """

    def __init__(
        self,
        scene: Scene,
        *,
        seed: bytes = b"swarm",
        links: Links | None = None,
        tamper: Tamper = lambda source, target, frame: (frame,),
        cipher: PadCipher | None = None,
        client_options: ClientOptions | None = None,
        relay_options: RelayOptions | None = None,
        entropy: Callable[[Seat], Entropy] | None = None,
    ) -> None:
        epoch = scene.finished.epoch
        shared = cipher or default_cipher()
        entropy_of = entropy or (lambda seat: SeededEntropy(seed + seat.encode()))
        self.scene = scene
        self.clients = [
            ClientCore(
                epoch=epoch,
                secrets=secrets,
                signing_key=scene.enrolment.clients[epoch.members[secrets.client]],
                cipher=shared,
                entropy=entropy_of(client_seat(secrets.client)),
                options=client_options,
            )
            for secrets in scene.finished.clients
        ]
        self.guards = [
            GuardCore(
                epoch=epoch,
                secrets=secrets,
                signing_key=scene.enrolment.guards[secrets.guard],
                cipher=shared,
                entropy=entropy_of(guard_seat(secrets.guard)),
            )
            for secrets in scene.finished.guards
        ]
        self.relay = RelayCore(
            epoch=epoch,
            signing_key=scene.enrolment.relay,
            cipher=shared,
            options=relay_options,
        )
        self.now = 0.0
        self.happened: list[Happened] = []
        self.refused: list[tuple[Seat, PeerError]] = []
        self.sightings: list[Sighting] | None = None
        """Set to a list to record every frame that is sent."""
        self.silent: set[Seat] = set()
        """Parties that are gone: nothing reaches them and they send nothing."""
        self._links = links or Links()
        self._tamper = tamper
        self._luck = SeededEntropy(b"luck" + seed)
        self._queue: list[tuple[float, int, int, Seat, Seat, bytes]] = []
        self._order = count()
        self._timers: dict[Seat, float] = {}

    # -- driving ------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin with round 0."""
        self._call(RELAY, lambda: self.relay.start(self.now))

    def run_until(self, at: float) -> None:
        """Serve everything up to this time."""
        self.run(lambda: False, at)

    def run(self, done: Callable[[], bool], at: float) -> bool:
        """Serve events until `done` says so, or this time has come; whether it was done."""
        for _ in range(MAX_STEPS):
            if done():
                return True
            if not self._queue or self._queue[0][0] > at:
                self.now = at
                return False
            self._serve(*heappop(self._queue))
        raise AssertionError("the swarm does not get on")

    def run_rounds(self, rounds: int, within_s: float = 1000.0) -> None:
        """Serve events until that many more rounds were opened."""
        goal = self.relay.next_round + rounds
        if not self.run(lambda: self.relay.next_round >= goal, self.now + within_s):
            raise AssertionError(f"round {self.relay.next_round} of {goal}: {self.relay!r}")

    def send(self, client: int, body: bytes) -> int:
        """Have a client say something."""
        core = self.clients[client]
        cell = core.send(body)
        self._after(client_seat(client))
        return cell

    def broadcast(self, data: bytes) -> None:
        """Have the relay say something."""
        self._call(RELAY, lambda: self.relay.broadcast(data, self.now))

    def leave(self, client: int) -> None:
        """Have a client leave."""
        self._call(client_seat(client), self.clients[client].leave)

    # -- looking ------------------------------------------------------------------------------

    def events(self, kind: type[E], seat: Seat | None = None) -> list[E]:
        """What happened of one kind, to everybody or to one party."""
        return [
            happened.event
            for happened in self.happened
            if isinstance(happened.event, kind) and seat in (None, happened.seat)
        ]

    def bodies(self, slot: int) -> list[bytes]:
        """What a pseudonym said, as the relay heard it."""
        return [
            happened.event.body
            for happened in self.happened
            if isinstance(happened.event, CellArrived) and happened.event.slot == slot
        ]

    def slot(self, client: int) -> int:
        """The pseudonym of a client, which in earnest only the client knows."""
        return self.scene.finished.clients[client].slot

    def owner(self, slot: int) -> int:
        """The client behind a pseudonym."""
        return next(one.client for one in self.scene.finished.clients if one.slot == slot)

    @property
    def protections(self) -> Protections:
        """What is on: to be printed beside every figure."""
        return Protections.of(self.scene.finished.epoch)

    # -- inside -------------------------------------------------------------------------------

    def _serve(
        self, at: float, kind: int, order: int, source: Seat, target: Seat, frame: bytes
    ) -> None:
        self.now = at
        if target in self.silent:
            return
        core = self._core(target)
        if kind == _TIMER:
            due = core.next_timer()
            if self._timers.get(target) == at:
                del self._timers[target]
            if due is not None and due <= at:
                self._call(target, lambda: core.on_timer(at))
            else:
                self._after(target)
            return
        try:
            if isinstance(core, RelayCore):
                self._call(target, lambda: core.receive(frame, at, source))
            elif isinstance(core, ClientCore | GuardCore):
                self._call(target, lambda: core.receive(frame, at))
        except PeerError as error:
            self.refused.append((target, error))

    def _call(self, seat: Seat, action: Callable[[], None]) -> None:
        try:
            action()
        finally:
            self._after(seat)

    def _after(self, seat: Seat) -> None:
        core = self._core(seat)
        for to, frame in core.to_send(self.now):
            for target in self._targets(to):
                self._post(seat, target, frame)
        while (event := core.next_event()) is not None:
            self.happened.append(Happened(self.now, seat, event))
        for to, frame in core.to_send(self.now):
            for target in self._targets(to):
                self._post(seat, target, frame)
        timer = core.next_timer()
        if timer is not None and timer < self._timers.get(seat, float("inf")):
            self._timers[seat] = max(timer, self.now)
            self._push(self._timers[seat], _TIMER, seat, seat, b"")

    def _post(self, source: Seat, target: Seat, frame: bytes) -> None:
        if source in self.silent:
            return
        if self.sightings is not None:
            self.sightings.append(Sighting(self.now, source, target, frame))
        remote = target if source == RELAY else source
        for arriving in self._tamper(source, target, frame):
            if int.from_bytes(self._luck.bytes(4)) >= self._links.loss(remote) * 2**32:
                at = self.now + self._links.delay_s(remote)
                self._push(at, _ARRIVAL, source, target, arriving)

    def _push(self, at: float, kind: int, source: Seat, target: Seat, frame: bytes) -> None:
        heappush(self._queue, (at, kind, next(self._order), source, target, frame))

    def _core(self, seat: Seat) -> Core:
        if seat.role is Role.RELAY:
            return self.relay
        return self.clients[seat.index] if seat.role is Role.CLIENT else self.guards[seat.index]

    def _targets(self, seat: Seat) -> Iterator[Seat]:
        if seat.index != ALL:
            yield seat
        elif seat.role is Role.CLIENT:
            yield from map(client_seat, range(len(self.clients)))
        else:
            yield from map(guard_seat, range(len(self.guards)))
