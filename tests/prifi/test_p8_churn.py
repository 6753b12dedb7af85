"""Property 8: parties come, go, die and lose frames; nobody's words are lost or mixed up.

The invariant: no payload is decoded in a round in which two honest parties that took part hold
different memberships.
"""

from collections.abc import Sequence
from itertools import pairwise

import pytest

from headtail_prifi.core.body import frame_of
from headtail_prifi.core.errors import MembershipError
from headtail_prifi.core.events import (
    CellArrived,
    ClientDropped,
    EpochOver,
    MembershipChanged,
)
from headtail_prifi.core.geometry import Geometry
from headtail_prifi.core.header import Header, Kind, read_header, short_id
from headtail_prifi.core.membership import pack_clients
from headtail_prifi.core.messages import Propose
from headtail_prifi.core.seat import RELAY, Role, Seat, client_seat, guard_seat
from headtail_prifi.crypto.entropy import SeededEntropy, uniform_below
from headtail_prifi.round.options import RelayOptions
from headtail_prifi.round.relay import RelayState
from headtail_prifi.swarm import Links, Scene, Swarm, set_scene

CLIENTS, GUARDS = 6, 2
GEOMETRY = Geometry(clients=CLIENTS, cell_bytes=128, sub_slots=2, window=2)
QUICK = RelayOptions(resend_s=0.05, patience_s=0.5)


@pytest.fixture(scope="module")
def scene() -> Scene:
    return set_scene(CLIENTS, GUARDS, GEOMETRY)


def swarm_of(scene: Scene, seed: int = 0, loss: float = 0.0) -> Swarm:
    luck = SeededEntropy(b"jitter%d" % seed)

    def delay_s(seat: Seat) -> float:
        base = 0.01 if seat.role is Role.CLIENT else 0.05
        return base * (1 + uniform_below(100, luck) / 100)

    links = Links(delay_s=delay_s, loss=lambda seat: loss)
    return kept(Swarm(scene, seed=b"%d" % seed, links=links, relay_options=QUICK))


def kept(swarm: Swarm) -> Swarm:
    """The relay keeps every round, so that the invariant can be checked in the end."""
    swarm.relay._engine.books._retain = 10**6
    return swarm


def check_invariant(swarm: Swarm) -> None:
    """Every decoded round: all its ciphers are of one membership, and so are the guards' pads."""
    versions = {0: 0}
    for change in swarm.events(MembershipChanged, RELAY):
        versions[change.first_round] = change.membership.version
    books = swarm.relay._engine.books
    for event in swarm.events(CellArrived):
        version = versions[max(first for first in versions if first <= event.round)]
        record = books._records[event.round]
        members = [change.membership for change in swarm.events(MembershipChanged, RELAY)]
        clients = next((m.clients for m in members if m.version == version), range(CLIENTS))
        assert set(record.frames) == set(clients)
        assert {read_header(frame).version for frame in record.frames.values()} == {version}
    for client in swarm.clients:
        first_rounds = {
            change.membership.version: change.first_round
            for change in swarm.events(MembershipChanged, client._seat)
        }
        for version, first_round in first_rounds.items():
            assert versions.get(first_round) == version


def said_by(swarm: Swarm, client: int) -> list[int]:
    return sorted(int(body) for body in swarm.bodies(swarm.slot(client)))


@pytest.mark.parametrize("loss", [0.01, 0.05, 0.2])
@pytest.mark.parametrize("seed", range(3))
def test_p8_loss_is_repaired_and_nothing_comes_twice(scene: Scene, loss: float, seed: int) -> None:
    swarm = swarm_of(scene, seed, loss)
    swarm.relay._options = RelayOptions(resend_s=0.05, patience_s=30.0)
    swarm.start()
    for number in range(20):
        for client in range(CLIENTS):
            swarm.send(client, b"%d" % number)
    done = [list(range(20))] * CLIENTS
    assert swarm.run(lambda: [said_by(swarm, c) for c in range(CLIENTS)] == done, 60.0)
    assert not swarm.refused
    assert swarm.relay.membership.version == 0
    check_invariant(swarm)


def test_p8_leave_takes_one_round_trip_to_the_guards(scene: Scene) -> None:
    links = Links(delay_s=lambda seat: 0.01 if seat.role is Role.CLIENT else 0.1)
    swarm = kept(Swarm(scene, links=links, relay_options=QUICK))
    swarm.start()
    for number in range(100):
        swarm.send(1, b"%d" % number)
    swarm.run_until(0.5)
    swarm.leave(4)
    begin = swarm.now
    assert swarm.run(lambda: swarm.relay.membership.version == 1, begin + 1.0)
    assert swarm.now - begin == pytest.approx(0.01 + 0.2)
    swarm.run_until(begin + 4.0)
    assert said_by(swarm, 1) == list(range(100))
    (over,) = swarm.events(EpochOver)
    assert over.reason == "this client is in no further membership"
    arrivals = [each.at for each in swarm.happened if isinstance(each.event, CellArrived)]
    gaps = [after - before for before, after in pairwise(arrivals)]
    assert max(gaps) < 0.5
    check_invariant(swarm)


def test_p8_a_killed_client_is_missed_and_left_out(scene: Scene) -> None:
    swarm = swarm_of(scene)
    swarm.start()
    for number in range(60):
        swarm.send(0, b"%d" % number)
    swarm.run_until(0.2)
    swarm.silent.add(client_seat(3))
    swarm.run_until(5.0)
    assert said_by(swarm, 0) == list(range(60))
    assert swarm.events(ClientDropped) == [ClientDropped(client=3, reason="it is silent")]
    assert 3 not in swarm.relay.membership.clients
    check_invariant(swarm)


def test_p8_a_silent_guard_ends_the_epoch(scene: Scene) -> None:
    swarm = swarm_of(scene)
    swarm.start()
    swarm.silent.add(guard_seat(1))
    swarm.run_until(20.0)
    (over,) = swarm.events(EpochOver, RELAY)
    assert over.reason == "guard 1 is silent"


def test_p8_a_guard_that_is_silent_while_rekeying_ends_the_epoch(scene: Scene) -> None:
    swarm = swarm_of(scene)
    swarm.start()
    swarm.run_until(0.1)
    swarm.silent.add(guard_seat(0))
    swarm.leave(2)
    swarm.run_until(5.0)
    (over,) = swarm.events(EpochOver, RELAY)
    assert over.reason == "guard 0 is silent"


def test_p8_too_few_clients_end_the_epoch() -> None:
    swarm = swarm_of(set_scene(3, 1, Geometry(clients=3, cell_bytes=128)))
    swarm.start()
    swarm.run_until(0.1)
    swarm.leave(0)
    swarm.run_until(1.0)
    assert swarm.relay.membership.clients == (1, 2)
    swarm.leave(1)
    swarm.run_until(2.0)
    (over,) = swarm.events(EpochOver, RELAY)
    assert over.reason == "too few clients are left to hide among"


def test_p8_two_who_go_at_once_are_left_out_one_after_the_other(scene: Scene) -> None:
    swarm = swarm_of(scene)
    swarm.start()
    swarm.run_until(0.1)
    swarm.leave(1)
    swarm.run_until(0.13)
    swarm.leave(2)
    swarm.run_until(2.0)
    assert swarm.relay.membership.version == 2
    assert swarm.relay.membership.clients == (0, 3, 4, 5)
    swarm.send(5, b"7")
    swarm.run_until(3.0)
    assert said_by(swarm, 5) == [7]
    check_invariant(swarm)


def script(seed: int) -> Sequence[tuple[float, str, int]]:
    """A random schedule of leaves, kills and speech; at least three clients stay."""
    luck = SeededEntropy(b"churn%d" % seed)
    steps: list[tuple[float, str, int]] = []
    going = 1 + uniform_below(3, luck)
    for client in range(going):
        kind = ("leave", "kill")[uniform_below(2, luck)]
        steps.append((uniform_below(300, luck) / 100, kind, client))
    for number in range(40):
        steps.append((uniform_below(400, luck) / 100, "say", 3 + number % 3))
    return sorted(steps)


def play(swarm: Swarm, seed: int) -> None:
    swarm.start()
    said = dict.fromkeys(range(CLIENTS), 0)
    for at, kind, client in script(seed):
        swarm.run_until(max(at, swarm.now))
        if kind == "say":
            swarm.send(client, b"%d" % said[client])
            said[client] += 1
        elif kind == "leave":
            swarm.leave(client)
        else:
            swarm.silent.add(client_seat(client))
    swarm.run_until(swarm.now + 8.0)
    for client in range(3, CLIENTS):
        assert said_by(swarm, client) == list(range(said[client]))
    assert swarm.relay.state is RelayState.RUNNING
    assert set(swarm.relay.membership.clients) >= {3, 4, 5}
    check_invariant(swarm)


@pytest.mark.parametrize("seed", range(6))
def test_p8_random_churn(scene: Scene, seed: int) -> None:
    play(swarm_of(scene, seed), seed)


@pytest.mark.parametrize("seed", range(3))
def test_p8_random_churn_with_loss(scene: Scene, seed: int) -> None:
    play(swarm_of(scene, seed, 0.02), seed)


@pytest.mark.long
def test_p8_random_churn_in_a_hundred_runs(scene: Scene) -> None:
    for seed in range(6, 106):
        play(swarm_of(scene, seed, (seed % 3) / 50), seed)


def test_p8_a_guard_endorses_one_membership_per_version(scene: Scene) -> None:
    swarm = swarm_of(scene)
    guard = swarm.guards[0]
    epoch = scene.finished.epoch

    def propose(version: int, clients: tuple[int, ...]) -> bytes:
        header = Header(Kind.PROPOSE, 0, 0, 0, short_id(epoch.epoch_id), version)
        bitmap = pack_clients(clients, CLIENTS)
        return frame_of(header, Propose(version=version, clients=bitmap))

    guard.receive(propose(1, (0, 1, 2, 3, 4)), 0.0)
    first = guard.to_send(0.0)
    guard.receive(propose(1, (0, 1, 2, 3, 4)), 0.0)
    assert guard.to_send(0.0) == first
    for version, clients in (
        (1, (0, 1, 2, 3)),
        (1, (0, 1, 2, 3, 5)),
        (3, (0, 1, 2, 3)),
        (2, (0, 1, 2, 3, 5)),
        (2, (0, 1, 2, 3, 4)),
        (2, (0,)),
    ):
        with pytest.raises(MembershipError):
            guard.receive(propose(version, clients), 0.0)
        assert guard.to_send(0.0) == []
    assert guard.membership.clients == (0, 1, 2, 3, 4)


def test_p8_clients_refuse_a_membership_without_every_guard(scene: Scene) -> None:
    """The relay announces a membership with a guard's signature replaced by another's."""

    def tamper(source: Seat, target: Seat, frame: bytes) -> tuple[bytes, ...]:
        if source == guard_seat(1) and frame[0] == Kind.ENDORSE:
            return (frame[:-1] + bytes([frame[-1] ^ 1]),)
        return (frame,)

    swarm = Swarm(scene, tamper=tamper, relay_options=QUICK)
    swarm.start()
    swarm.leave(5)
    swarm.run(lambda: bool(swarm.events(EpochOver, RELAY)), 10.0)
    assert swarm.relay.membership.version == 0
    assert swarm.clients[0].membership.version == 0
    assert any(seat == RELAY for seat, _ in swarm.refused)
