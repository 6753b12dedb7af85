"""Blame beyond one culprit on perfect links: loss, repetition, two culprits, odd frames."""

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from headtail_prifi.blame.accusation import accuse
from headtail_prifi.blame.evidence import verify_evidence
from headtail_prifi.blame.judge import Charge
from headtail_prifi.blame.messages import Vouched
from headtail_prifi.blame.prosecutor import ProsecutorState
from headtail_prifi.blame.watch import MAX_SUSPECTS, Watch
from headtail_prifi.core.body import frame_of
from headtail_prifi.core.errors import UnexpectedFrameError
from headtail_prifi.core.events import VerdictReached
from headtail_prifi.core.geometry import Geometry
from headtail_prifi.core.header import Header, Kind, read_header, short_id
from headtail_prifi.core.messages import NOBODY, Disclosure
from headtail_prifi.core.seat import RELAY, Role, Seat, client_seat, guard_seat
from headtail_prifi.crypto.entropy import SeededEntropy
from headtail_prifi.misbehaviour import (
    FramingWitness,
    LyingWitness,
    disrupt,
    witness_as,
)
from headtail_prifi.round.cell import CellKind, silence
from headtail_prifi.round.options import RelayOptions
from headtail_prifi.round.outbound import Spoilt
from headtail_prifi.swarm import Links, Scene, Swarm, Tamper, set_scene

CLIENTS, GUARDS = 5, 3
GEOMETRY = Geometry(clients=CLIENTS, cell_bytes=128, sub_slots=2, window=2)
BLAME = frozenset(
    {
        Kind.VOUCH,
        Kind.VOUCHED,
        Kind.CASE,
        Kind.REVEAL,
        Kind.CONFLICT,
        Kind.OPENING,
        Kind.CALL,
        Kind.SUBMIT,
        Kind.MIX,
        Kind.MIXED,
        Kind.UNMASK,
        Kind.SHARES,
        Kind.VERDICT,
    }
)


@pytest.fixture(scope="module")
def scene() -> Scene:
    return set_scene(CLIENTS, GUARDS, GEOMETRY)


def swarm_of(
    scene: Scene, *, loss: float = 0.0, seed: int = 0, tamper: Tamper | None = None
) -> Swarm:
    links = Links(
        delay_s=lambda seat: 0.01 if seat.role is Role.CLIENT else 0.03, loss=lambda seat: loss
    )
    swarm = Swarm(
        scene,
        seed=b"%d" % seed,
        links=links,
        tamper=tamper or (lambda source, target, frame: (frame,)),
        relay_options=RelayOptions(resend_s=0.08, patience_s=5.0),
    )
    for client in range(CLIENTS):
        for number in range(10):
            swarm.send(client, b"%d" % number)
    return swarm


def disturb(swarm: Swarm, bad: int, every: int = 1) -> None:
    """Bursts in every n-th cell of others."""
    slot = swarm.slot(bad)
    noise = SeededEntropy(b"noise%d" % bad)
    count = [0]

    def flips(round_: int, owners: tuple[int, ...]) -> Iterator[int]:
        for sub_slot, owner in enumerate(owners):
            if owner in (slot, NOBODY):
                continue
            count[0] += 1
            if count[0] % every == 0:
                mask = noise.bytes(16)
                start = sub_slot * 1024
                yield from (start + bit for bit in range(128) if mask[bit >> 3] >> (bit & 7) & 1)

    disrupt(swarm.clients[bad], flips)


def culprits(swarm: Swarm) -> list[Seat | None]:
    return [event.culprit for event in swarm.events(VerdictReached, RELAY)]


@pytest.mark.parametrize("every", [1, 2])
@pytest.mark.parametrize("lies", [False, True])
def test_blame_gets_through_lossy_links(scene: Scene, every: int, lies: bool) -> None:
    for seed in range(3):
        swarm = swarm_of(scene, loss=0.1, seed=seed)
        disturb(swarm, 2, every)
        if lies:
            witness_as(swarm.clients[2], LyingWitness)
        swarm.start()
        assert swarm.run(lambda: bool(culprits(swarm)), 60.0)  # noqa: B023
        assert culprits(swarm) == [client_seat(2)]
        assert swarm.run(lambda: swarm.relay.membership.version == 1, 120.0)  # noqa: B023


@pytest.mark.parametrize("every", [1, 2])
def test_blame_is_the_same_when_every_frame_of_it_comes_twice(scene: Scene, every: int) -> None:
    def twice(source: Seat, target: Seat, frame: bytes) -> tuple[bytes, ...]:
        return (frame, frame) if frame[0] in BLAME else (frame,)

    swarm = swarm_of(scene, tamper=twice)
    disturb(swarm, 2, every)
    witness_as(swarm.clients[2], LyingWitness)
    swarm.start()
    assert swarm.run(lambda: swarm.relay.membership.version == 1, 60.0)
    assert culprits(swarm) == [client_seat(2)]


def test_two_disruptors_go_one_after_the_other(scene: Scene) -> None:
    """The second case is set under a membership with a certificate."""
    swarm = swarm_of(scene)
    for bad in (1, 3):
        disturb(swarm, bad, every=3)
    swarm.start()
    assert swarm.run(lambda: swarm.relay.membership.clients == (0, 2, 4), 120.0)
    assert set(culprits(swarm)) == {client_seat(1), client_seat(3)}
    for verdict in swarm.events(VerdictReached):
        ruling = verify_evidence(verdict.evidence, scene.finished.epoch)
        assert ruling.culprit == verdict.culprit
    swarm.run_until(swarm.now + 3.0)
    for client in (0, 2, 4):
        assert sorted(map(int, swarm.bodies(swarm.slot(client)))) == list(range(10))


def test_an_accomplice_that_lies_convicts_nobody_honest(scene: Scene) -> None:
    swarm = swarm_of(scene)
    disturb(swarm, 1, every=2)
    witness_as(swarm.clients[4], FramingWitness)
    swarm.start()
    swarm.run_until(20.0)
    assert client_seat(1) in culprits(swarm)
    assert set(culprits(swarm)) <= {client_seat(1), client_seat(4)}
    assert len(swarm.relay.membership.clients) >= 3


def test_an_accomplice_that_lies_alone_is_convicted(scene: Scene) -> None:
    """The disruptor lies consistently, its accomplice lies too: both guards' bits contradict."""
    swarm = swarm_of(scene)
    disturb(swarm, 1, every=2)
    witness_as(swarm.clients[1], LyingWitness)
    witness_as(swarm.clients[4], FramingWitness)
    swarm.start()
    swarm.run_until(30.0)
    assert culprits(swarm)
    assert set(culprits(swarm)) <= {client_seat(1), client_seat(4)}


def test_accusing_in_another_name_costs_the_turns(scene: Scene) -> None:
    swarm = swarm_of(scene)
    other = scene.finished.clients[1]
    accusation = accuse(
        scene.finished.epoch,
        version=0,
        round_=1,
        position=3,
        slot=other.slot,
        record=bytes(32),
        secret=other.pseudonym,
        entropy=SeededEntropy(b"x"),
    )
    swarm.clients[0]._outbound.add(CellKind.ACCUSATION, accusation.pack())
    swarm.start()
    swarm.run_rounds(12)
    (verdict,) = swarm.events(VerdictReached)
    assert (verdict.slot, verdict.charge) == (swarm.slot(0), Charge.FALSE_ACCUSATION)


def test_an_accusation_of_a_round_long_gone_is_ignored(scene: Scene) -> None:
    swarm = swarm_of(scene)
    own = scene.finished.clients[0]
    accusation = accuse(
        scene.finished.epoch,
        version=0,
        round_=4_000_000,
        position=3,
        slot=own.slot,
        record=bytes(32),
        secret=own.pseudonym,
        entropy=SeededEntropy(b"x"),
    )
    swarm.clients[0]._outbound.add(CellKind.ACCUSATION, accusation.pack())
    swarm.start()
    swarm.run_rounds(12)
    assert not swarm.events(VerdictReached)


# -- frames of blame that the relay must refuse -----------------------------------------------


def held_at(scene: Scene, kind: Kind, state: ProsecutorState) -> tuple[Swarm, list[bytes]]:
    """A swarm whose relay waits in a state because frames of a kind are held back."""
    held: list[bytes] = []

    def hold(source: Seat, target: Seat, frame: bytes) -> tuple[bytes, ...]:
        if frame[0] == kind and target == RELAY:
            held.append(frame)
            return ()
        return (frame,)

    swarm = swarm_of(scene, tamper=hold)
    disturb(swarm, 2, every=2)
    witness_as(swarm.clients[2], LyingWitness)
    swarm.start()
    assert swarm.run(lambda: swarm.relay._prosecutor.state is state and len(held) > 1, 60.0)
    return swarm, held


def test_nobody_answers_for_another(scene: Scene) -> None:
    swarm, held = held_at(scene, Kind.REVEAL, ProsecutorState.REVEALING)
    frame = next(frame for frame in held if read_header(frame).sender == 1)
    with pytest.raises(UnexpectedFrameError):
        swarm.relay.receive(frame, swarm.now, guard_seat(1))
    swarm.relay.receive(frame, swarm.now, client_seat(1))
    swarm.relay.receive(frame, swarm.now, client_seat(1))
    assert swarm.relay._prosecutor.state is ProsecutorState.REVEALING


def test_only_the_two_open_their_secret(scene: Scene) -> None:
    swarm, held = held_at(scene, Kind.OPENING, ProsecutorState.CONFRONTING)
    from_guard = next(frame for frame in held if read_header(frame).sender == 0)
    header = read_header(from_guard)
    for source in (client_seat(0), guard_seat(2), client_seat(2)):
        bent = replace(header, sender=source.index).encode() + from_guard[12:]
        with pytest.raises(UnexpectedFrameError):
            swarm.relay.receive(bent, swarm.now, source)
    assert swarm.relay._prosecutor.state is ProsecutorState.CONFRONTING


def test_a_voucher_that_nobody_asked_for_is_ignored(scene: Scene) -> None:
    swarm, held = held_at(scene, Kind.VOUCHED, ProsecutorState.VOUCHING)
    frame = held[0]
    source = client_seat(read_header(frame).sender)
    swarm.relay.receive(frame, swarm.now, source)
    epoch_id = scene.finished.epoch.epoch_id
    header = Header(Kind.VOUCHED, 0, source.index, 0, short_id(epoch_id), 0)
    swarm.relay.receive(frame_of(header, Vouched(voucher=bytes(64))), swarm.now, source)
    assert swarm.relay._prosecutor.state is ProsecutorState.VOUCHING
    assert source not in swarm.relay._prosecutor._chase.waiting  # type: ignore[union-attr]


def test_a_watch_keeps_so_many_suspects_and_needs_its_history(scene: Scene) -> None:
    core = Swarm(scene).clients[0]
    watch: Watch = core._watch
    for round_ in range(MAX_SUSPECTS + 5):
        watch.spoilt(Spoilt(round=round_, sub_slot=0, cell=silence(GEOMETRY)))
    assert len(watch._suspects) == MAX_SUSPECTS
    shown = Disclosure(round=60, sub_slot=0, payload=b"\xff" * 128, key=bytes(16))
    assert watch.on_disclosure(99, shown, 0) is None  # the frames are not in its history
    assert watch.on_disclosure(99, shown, 0) is None  # and it is no suspect any more
