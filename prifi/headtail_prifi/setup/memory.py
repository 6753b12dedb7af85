"""A whole set-up in one process, in virtual time: for tests, benchmarks and trying things out."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import Final, NamedTuple

from headtail_prifi.core.seat import ALL, RELAY, Role, Seat, client_seat, guard_seat
from headtail_prifi.crypto.entropy import Entropy
from headtail_prifi.crypto.signature import SigningKey
from headtail_prifi.setup.client import ClientSetup
from headtail_prifi.setup.core import Failed, Ready
from headtail_prifi.setup.epoch import ClientSecrets, Epoch, GuardSecrets
from headtail_prifi.setup.errors import FrameRefusedError
from headtail_prifi.setup.guard import GuardSetup
from headtail_prifi.setup.relay import RelaySetup
from headtail_prifi.setup.roster import Party, Roster

Tamper = Callable[[Seat, Seat, bytes], Sequence[bytes]]
"""(from, to, frame) to the frames that arrive instead."""

_ARRIVAL, _TIMER = 0, 1
MAX_STEPS: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Enrolment:
    """A roster and everybody's private signing keys, as only a test holds them together."""

    roster: Roster
    clients: tuple[SigningKey, ...] = field(repr=False)
    guards: tuple[SigningKey, ...] = field(repr=False)
    relay: SigningKey = field(repr=False)


def enrol(
    clients: int, guards: int, entropy: Entropy, *, group: str, min_clients: int = 2
) -> Enrolment:
    """New keys for that many parties, and their roster."""
    client_keys = tuple(SigningKey.generate(entropy) for _ in range(clients))
    guard_keys = tuple(SigningKey.generate(entropy) for _ in range(guards))
    relay = SigningKey.generate(entropy)
    roster = Roster(
        serial=1,
        group=group,
        min_clients=min_clients,
        clients=_parties("client", client_keys),
        guards=_parties("guard", guard_keys),
        relay=Party(name="relay", verify_key=relay.verify_key),
    )
    return Enrolment(roster=roster, clients=client_keys, guards=guard_keys, relay=relay)


def _parties(name: str, keys: Sequence[SigningKey]) -> tuple[Party, ...]:
    return tuple(
        Party(name=f"{name} {index}", verify_key=key.verify_key) for index, key in enumerate(keys)
    )


class Finished(NamedTuple):
    """What a completed set-up left with everybody."""

    epoch: Epoch
    clients: tuple[ClientSecrets, ...]
    guards: tuple[GuardSecrets, ...]


class SetupSwarm:
    """All cores of one attempt and the links between them.

    Each party is busy while it works: `cost` is asked for a reading (seconds) before and after
    each call of a core, and what the call cost passes on that party's own clock, so that `now`
    ends up as the length of the critical path. By default work is free and only `delay_s`, of
    the link between the relay and a party, counts.
    """

    def __init__(
        self,
        enrolment: Enrolment,
        entropy: Entropy,
        *,
        number: int = 1,
        last_number: int = 0,
        members: Sequence[int] | None = None,
        parameters: bytes = b"",
        delay_s: Callable[[Seat], float] = lambda seat: 0.0,
        cost: Callable[[], float] = lambda: 0.0,
        tamper: Tamper = lambda source, target, frame: (frame,),
    ) -> None:
        roster = enrolment.roster
        chosen = tuple(range(len(roster.clients))) if members is None else tuple(members)
        self.relay = RelaySetup(
            roster=roster,
            signing_key=enrolment.relay,
            number=number,
            members=chosen,
            parameters=parameters,
            entropy=entropy,
        )
        self.clients = [
            ClientSetup(
                roster=roster,
                signing_key=enrolment.clients[member],
                last_number=last_number,
                entropy=entropy,
            )
            for member in chosen
        ]
        self.guards = [
            GuardSetup(roster=roster, signing_key=key, last_number=last_number, entropy=entropy)
            for key in enrolment.guards
        ]
        self.events: dict[Seat, Ready | Failed] = {}
        self.refused: list[tuple[Seat, FrameRefusedError]] = []
        self.now = 0.0
        self._delay_s = delay_s
        self._cost = cost
        self._tamper = tamper
        self._queue: list[tuple[float, int, int, Seat, bytes]] = []
        self._order = count()
        self._free_at: dict[Seat, float] = {}

    def run(self) -> None:
        """Starts the attempt and goes on until nobody has anything to do but wait."""
        self._call(RELAY, 0.0, lambda: self.relay.start(0.0))
        self._drain()

    def time_out(self, now: float) -> None:
        """Tells everybody that it is `now`, and goes on."""
        for seat in self._everybody():
            heappush(self._queue, (now, _TIMER, next(self._order), seat, b""))
        self._drain()

    def finished(self) -> Finished:
        """The epoch and everybody's secrets, once all are ready."""
        epochs = []
        secrets: dict[Role, list[ClientSecrets | GuardSecrets]] = {role: [] for role in Role}
        for seat in self._everybody():
            event = self.events.get(seat)
            if not isinstance(event, Ready):
                raise AssertionError(f"{seat!r} is not ready: {event}")
            epochs.append(event.epoch)
            if event.secrets is not None:
                secrets[seat.role].append(event.secrets)
        assert all(epoch == epochs[0] for epoch in epochs)
        return Finished(
            epochs[0],
            tuple(one for one in secrets[Role.CLIENT] if isinstance(one, ClientSecrets)),
            tuple(one for one in secrets[Role.GUARD] if isinstance(one, GuardSecrets)),
        )

    def _drain(self) -> None:
        for _ in range(MAX_STEPS):
            if not self._queue:
                return
            at, kind, order, seat, frame = heappop(self._queue)
            free_at = self._free_at.get(seat, 0.0)
            if free_at > at:
                heappush(self._queue, (free_at, kind, order, seat, frame))
            else:
                self._serve(at, kind, seat, frame)
        raise AssertionError("the set-up does not end")

    def _serve(self, at: float, kind: int, seat: Seat, frame: bytes) -> None:
        core = self._core(seat)
        if kind == _TIMER:
            timer = core.next_timer()
            if timer is not None and timer <= at:
                self._call(seat, at, lambda: core.on_timer(at))
            return
        try:
            self._call(seat, at, lambda: core.receive(frame, at))
        except FrameRefusedError as error:
            self.refused.append((seat, error))

    def _call(self, seat: Seat, at: float, action: Callable[[], None]) -> None:
        core = self._core(seat)
        before = self._cost()
        try:
            action()
            outgoing = list(core.to_send(at))
        finally:
            done = at + self._cost() - before
            self._free_at[seat] = done
            self.now = max(self.now, done)
        for to, frame in outgoing:
            for target in self._targets(to):
                self._post(seat, target, frame, done)
        event = core.next_event()
        if event is not None:
            self.events[seat] = event
        timer = core.next_timer()
        if timer is not None and timer <= done:
            heappush(self._queue, (done, _TIMER, next(self._order), seat, b""))

    def _post(self, source: Seat, target: Seat, frame: bytes, at: float) -> None:
        remote = target if source == RELAY else source
        for arriving in self._tamper(source, target, frame):
            entry = (at + self._delay_s(remote), _ARRIVAL, next(self._order), target, arriving)
            heappush(self._queue, entry)

    def _core(self, seat: Seat) -> RelaySetup | ClientSetup | GuardSetup:
        if seat.role is Role.RELAY:
            return self.relay
        return self.clients[seat.index] if seat.role is Role.CLIENT else self.guards[seat.index]

    def _targets(self, seat: Seat) -> Iterator[Seat]:
        if seat.index == ALL:
            yield from self._seats(seat.role)
        else:
            yield seat

    def _everybody(self) -> Iterator[Seat]:
        yield RELAY
        yield from self._seats(Role.GUARD)
        yield from self._seats(Role.CLIENT)

    def _seats(self, role: Role) -> Iterator[Seat]:
        if role is Role.CLIENT:
            yield from map(client_seat, range(len(self.clients)))
        else:
            yield from map(guard_seat, range(len(self.guards)))


def run_setup(
    clients: int, guards: int, entropy: Entropy, *, group: str, parameters: bytes = b""
) -> tuple[Enrolment, Finished]:
    """A completed set-up of that many parties."""
    enrolment = enrol(clients, guards, entropy, group=group)
    swarm = SetupSwarm(enrolment, entropy, parameters=parameters)
    swarm.run()
    return enrolment, swarm.finished()
