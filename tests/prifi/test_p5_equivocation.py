"""Property 5: clients with different histories are not heard any more, and it can be proven."""

from dataclasses import replace
from itertools import combinations
from typing import Any

import msgspec
import numpy as np
import pytest

from headtail_prifi.blame.evidence import TwoHistories, encode_evidence, verify_evidence
from headtail_prifi.blame.judge import Charge, Ruling
from headtail_prifi.core.errors import EvidenceError, FrameError
from headtail_prifi.core.events import CellArrived, EpochOver, MembershipChanged, VerdictReached
from headtail_prifi.core.geometry import Geometry
from headtail_prifi.core.messages import Down
from headtail_prifi.core.seat import RELAY, client_seat
from headtail_prifi.crypto.errors import SignatureError
from headtail_prifi.misbehaviour import Equivocator
from headtail_prifi.round.options import ClientOptions
from headtail_prifi.swarm import Scene, Swarm, set_scene

CLIENTS = 4
GEOMETRY = Geometry(clients=CLIENTS, cell_bytes=128, sub_slots=2, window=2, down_bytes=128)
SINCE = 6
SUBSETS = [subset for size in range(1, CLIENTS) for subset in combinations(range(CLIENTS), size)]


@pytest.fixture(scope="module")
def scene() -> Scene:
    return set_scene(CLIENTS, 2, GEOMETRY)


def flip(round_: int, down: Down) -> Down:
    """One bit of what is broadcast in one round."""
    if round_ != SINCE:
        return down
    data = bytearray(down.data[0])
    data[0] ^= 1
    return msgspec.structs.replace(down, data=(bytes(data), *down.data[1:]))


def drop(round_: int, down: Down) -> Down:
    return msgspec.structs.replace(down, data=()) if round_ == SINCE else down


def reorder(round_: int, down: Down) -> Down:
    return msgspec.structs.replace(down, data=down.data[::-1]) if round_ == SINCE else down


CHANGES = [flip, drop, reorder]


def equivocating(scene: Scene, victims: tuple[int, ...], change: Any, **options: Any) -> Swarm:
    epoch = scene.finished.epoch
    tamper = Equivocator(
        victims=victims,
        since=SINCE,
        change=change,
        epoch_id=epoch.epoch_id,
        key=scene.enrolment.relay,
    )
    return Swarm(scene, tamper=tamper, client_options=ClientOptions(verify_every=1), **options)


def everybody_talks(swarm: Swarm, rounds: int) -> None:
    for number in range(rounds):
        for client in range(CLIENTS):
            swarm.send(client, b"%d" % number)
        swarm.broadcast(b"one %d".ljust(60) % number)
        swarm.broadcast(b"two %d".ljust(60) % number)
    swarm.start()
    swarm.run(lambda: swarm.relay.next_round >= rounds or swarm.relay.state == "over", 100.0)


def heard_in_one_membership(swarm: Swarm) -> list[int]:
    """The rounds in which the relay heard something before the membership changed, if it did.

    When victims find out (the relay's own case shows them the other history), they end the epoch,
    and a membership of clients with one history may follow.
    """
    changes = swarm.events(MembershipChanged, RELAY)
    end = min((change.first_round for change in changes), default=10**9)
    return [event.round for event in swarm.events(CellArrived) if event.round < end]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("victims", SUBSETS)
def test_p5_equivocation_makes_every_later_round_undecodable(
    scene: Scene, victims: tuple[int, ...], change: Any
) -> None:
    swarm = equivocating(scene, victims, change)
    everybody_talks(swarm, 26)
    heard = heard_in_one_membership(swarm)
    assert max(heard) == SINCE - 1
    assert len(heard) > 2
    for change in swarm.events(MembershipChanged, RELAY):
        assert len({client in victims for client in change.membership.clients}) == 1
    books = swarm.relay._engine.books
    bits = [
        np.unpackbits(each.opened[GEOMETRY.reservation_start :])
        for each in map(books._records.get, range(SINCE, SINCE + 8))
        if each is not None and each.opened is not None
    ]
    assert len(bits) >= 6
    assert 0.4 < np.mean(bits) < 0.6


def test_p5_equivocation_equal_histories_decode(scene: Scene) -> None:
    swarm = equivocating(scene, (), flip)
    everybody_talks(swarm, 40)
    heard = [event.round for event in swarm.events(CellArrived)]
    assert max(heard) >= 36


def test_p5_equivocation_is_not_forgiven_when_frames_are_equal_again(scene: Scene) -> None:
    """The frames after round SINCE are the same for all; the histories stay different."""
    swarm = equivocating(scene, (1,), flip)
    everybody_talks(swarm, 200)
    assert max(heard_in_one_membership(swarm)) == SINCE - 1
    (change,) = swarm.events(MembershipChanged, RELAY)
    assert 1 not in change.membership.clients
    verdicts = swarm.events(VerdictReached, client_seat(1))
    assert [verdict.charge for verdict in verdicts] == [Charge.EQUIVOCATED]
    verify_evidence(verdicts[0].evidence, scene.finished.epoch)


@pytest.mark.parametrize("change", CHANGES)
def test_p5_equivocation_is_proven_by_two_statements(scene: Scene, change: Any) -> None:
    swarm = equivocating(scene, (2, 3), change)
    everybody_talks(swarm, 12)
    epoch = scene.finished.epoch
    for round_ in range(SINCE, 10):
        one, other = (swarm.clients[client].history(round_) for client in (0, 3))
        assert one is not None
        assert other is not None
        evidence = encode_evidence(TwoHistories.of(one, other))
        assert verify_evidence(evidence, epoch) == Ruling(culprit=RELAY, charge=Charge.EQUIVOCATED)
    before = [swarm.clients[client].history(SINCE - 1) for client in (0, 3)]
    assert before[0] == before[1]
    assert before[0] is not None
    assert before[1] is not None
    with pytest.raises(EvidenceError, match="one history"):
        verify_evidence(encode_evidence(TwoHistories.of(before[0], before[1])), epoch)


def test_p5_equivocation_statements_cannot_be_made_up(scene: Scene) -> None:
    swarm = Swarm(scene)
    everybody_talks(swarm, 8)
    real = swarm.clients[0].history(5)
    assert real is not None
    forged = replace(real, link=bytes(32))
    with pytest.raises(SignatureError):
        forged.verify(scene.enrolment.relay.verify_key)
    with pytest.raises(EvidenceError):
        verify_evidence(encode_evidence(TwoHistories.of(real, forged)), scene.finished.epoch)


def test_p5_equivocation_within_one_client_is_caught_on_the_spot(scene: Scene) -> None:
    """The relay sends the client a second, signed version of a frame that it has."""
    swarm = Swarm(scene)
    swarm.sightings = []
    everybody_talks(swarm, 16)
    frames = [
        each.frame
        for each in swarm.sightings
        if each.target == client_seat(0) and each.frame[0] == 1
    ]
    forger = Equivocator(
        victims=(0,),
        since=SINCE,
        change=flip,
        epoch_id=scene.finished.epoch.epoch_id,
        key=scene.enrolment.relay,
    )
    other = [forger(RELAY, client_seat(0), frame)[0] for frame in frames]
    client = swarm.clients[0]
    unsigned = bytearray(frames[SINCE])
    unsigned[-70] ^= 1
    with pytest.raises(FrameError):
        client.receive(bytes(unsigned), 0.0)
    assert client.next_event() is None
    client.receive(other[SINCE], 0.0)
    verdict, over = client.next_event(), client.next_event()
    assert isinstance(verdict, VerdictReached)
    assert isinstance(over, EpochOver)
    ruling = verify_evidence(verdict.evidence, scene.finished.epoch)
    assert ruling == Ruling(culprit=RELAY, charge=Charge.EQUIVOCATED)


def test_p5_equivocation_without_signatures_ends_the_epoch_for_the_victim(scene: Scene) -> None:
    """Somebody on the link, without the relay's key, changes a frame."""

    def tamper(source: Any, target: Any, frame: bytes) -> tuple[bytes, ...]:
        if target == client_seat(1) and frame[0] == 1 and int.from_bytes(frame[4:8]) == SINCE:
            return (frame[:-70] + bytes([frame[-70] ^ 1]) + frame[-69:],)
        return (frame,)

    swarm = Swarm(scene, tamper=tamper, client_options=ClientOptions(verify_every=1))
    everybody_talks(swarm, 5)
    swarm.run_until(0.5)
    (over,) = swarm.events(EpochOver, client_seat(1))
    assert "history" in over.reason
