"""Property 9: whatever bytes come, a party raises a typed error at most, and goes on as before."""

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headtail_fabric.errors import PeerError
from headtail_prifi.app.errors import TrafficError
from headtail_prifi.app.exit import Exit
from headtail_prifi.app.fragments import Assembler, cut_again
from headtail_prifi.app.wire import read_part
from headtail_prifi.blame.accusation import unpack_accusation
from headtail_prifi.blame.evidence import MAGIC, verify_evidence
from headtail_prifi.blame.messages import (
    Call,
    Case,
    Claim,
    Conflict,
    Mix,
    Mixed,
    Opening,
    Proclaim,
    Reveal,
    Shares,
    Submit,
    Unmask,
    Vouch,
    Vouched,
)
from headtail_prifi.core.body import MAX_BODY_BYTES, Body, decode_body, split_signed
from headtail_prifi.core.errors import EvidenceError, FrameError, GeometryError, MembershipError
from headtail_prifi.core.events import CellArrived
from headtail_prifi.core.geometry import Geometry
from headtail_prifi.core.header import Kind, read_header
from headtail_prifi.core.membership import Certificate, unpack_clients
from headtail_prifi.core.messages import (
    Disclosure,
    Down,
    Endorse,
    Grant,
    Leave,
    Nack,
    Propose,
    Report,
    Retirement,
)
from headtail_prifi.core.seat import RELAY, Role, Seat, client_seat, guard_seat
from headtail_prifi.crypto.cipher import default_cipher
from headtail_prifi.crypto.group import default_group
from headtail_prifi.misbehaviour import LyingWitness, disrupt, witness_as
from headtail_prifi.round.cell import CellKind, open_cell, seal_cell
from headtail_prifi.round.schedule import decode_owners, reserved_slots
from headtail_prifi.swarm import Links, Scene, Swarm, set_scene

GEOMETRY = Geometry(clients=3, cell_bytes=128, window=2)
BODIES: tuple[type[Body], ...] = (
    Report,
    Disclosure,
    Retirement,
    Down,
    Nack,
    Grant,
    Propose,
    Endorse,
    Leave,
    Certificate,
    Vouch,
    Vouched,
    Claim,
    Case,
    Reveal,
    Conflict,
    Opening,
    Call,
    Submit,
    Mix,
    Mixed,
    Unmask,
    Shares,
    Proclaim,
)
_FUZZ = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
junk = st.binary(max_size=300)


@pytest.mark.parametrize("kind", BODIES, ids=lambda kind: kind.__name__)
@_FUZZ
@given(data=junk)
def test_p9_fuzz_bodies(kind: type[Body], data: bytes) -> None:
    try:
        decode_body(kind, data)
    except FrameError:
        return


def test_p9_fuzz_oversize_and_short_bodies() -> None:
    with pytest.raises(FrameError):
        decode_body(Down, bytes(MAX_BODY_BYTES + 1))
    with pytest.raises(FrameError):
        decode_body(Down, b"\x91" * 100_000)
    with pytest.raises(FrameError):
        split_signed(bytes(60))


Parser = Callable[[bytes], object]


@pytest.mark.parametrize(
    ("parser", "error"),
    [
        (read_header, FrameError),
        (unpack_accusation, FrameError),
        (lambda data: unpack_clients(data, 20), MembershipError),
        (lambda data: Geometry.decode(data, clients=3), GeometryError),
        (lambda data: reserved_slots(data, 3), ()),
        (lambda data: decode_owners(data + data), ()),
        (read_part, TrafficError),
        (Assembler().add, TrafficError),
        (lambda data: list(cut_again(data, 100)), TrafficError),
    ],
)
@_FUZZ
@given(data=junk)
def test_p9_fuzz_small_parsers(
    parser: Parser, error: type[Exception] | tuple[()], data: bytes
) -> None:
    try:
        parser(data)
    except error:
        return


@_FUZZ
@given(data=st.binary(min_size=112, max_size=112))
def test_p9_fuzz_cells_of_a_hostile_owner(data: bytes) -> None:
    """Everything that authenticates but is no cell."""
    sealed = default_cipher().seal(key=bytes(16), nonce=bytes(12), plaintext=data)
    try:
        open_cell(default_cipher(), sealed, bytes(16))
    except FrameError:
        return


def test_p9_fuzz_a_cell_that_is_too_long_is_not_sealed() -> None:
    with pytest.raises(ValueError, match="holds"):
        seal_cell(
            default_cipher(),
            GEOMETRY,
            kind=CellKind.DATA,
            body=bytes(109),
            backlog=0,
            key=bytes(16),
        )


@_FUZZ
@given(bodies=st.lists(junk, max_size=6))
def test_p9_fuzz_exit(bodies: list[bytes]) -> None:
    exit_ = Exit(group=default_group(), secret=5, cipher=default_cipher(), item_bytes=200)
    for body in bodies:
        for framed in (body, bytes(5) + len(body).to_bytes(3) + body):
            try:
                exit_.on_cell(0, framed)
            except TrafficError:
                continue


@pytest.fixture(scope="module")
def scene() -> Scene:
    return set_scene(3, 2, GEOMETRY)


@_FUZZ
@given(data=junk, prefix=st.sampled_from([b"", MAGIC]))
def test_p9_fuzz_evidence(scene: Scene, data: bytes, prefix: bytes) -> None:
    with pytest.raises(EvidenceError):
        verify_evidence(prefix + data, scene.finished.epoch)


@pytest.fixture(scope="module")
def eventful(scene: Scene) -> Swarm:
    """A run in which every kind of frame is sent: loss, a leave that fails, a lying disruptor."""
    swarm = Swarm(
        scene,
        links=Links(
            delay_s=lambda seat: 0.01 if seat.role is Role.CLIENT else 0.03,
            loss=lambda seat: 0.02,
        ),
    )
    swarm.sightings = []
    bad_slot = swarm.slot(2)

    def flips(round_: int, owners: tuple[int, ...]) -> range:
        return range(256) if owners[0] not in (bad_slot, 0xFFFF) else range(0)

    disrupt(swarm.clients[2], flips)
    witness_as(swarm.clients[2], LyingWitness)
    swarm.start()
    swarm.send(0, b"hello")
    swarm.run(lambda: swarm.relay.membership.version == 1, 60.0)
    swarm.run_rounds(70)
    swarm.leave(0)
    return swarm


def test_p9_fuzz_corpus_holds_every_kind(eventful: Swarm) -> None:
    assert {each.frame[0] for each in eventful.sightings or []} == {int(kind) for kind in Kind}


def feed(swarm: Swarm, source: Seat, target: Seat, frame: bytes) -> None:
    """Hand a frame to a party; it may be refused, and nothing worse."""
    with suppress(PeerError):
        if target == RELAY:
            swarm.relay.receive(frame, swarm.now, source)
        elif target.role is Role.CLIENT:
            swarm.clients[target.index].receive(frame, swarm.now)
        else:
            swarm.guards[target.index].receive(frame, swarm.now)


@settings(_FUZZ, max_examples=200)
@given(data=st.data())
def test_p9_fuzz_parties_survive_mutated_and_replayed_frames(
    scene: Scene, eventful: Swarm, data: st.DataObject
) -> None:
    sightings = eventful.sightings
    assert sightings is not None
    kind = data.draw(st.sampled_from(sorted(Kind)))
    corpus = [each for each in sightings if each.frame[0] == kind]
    sighting = data.draw(st.sampled_from(corpus[:20]))
    frame = bytearray(sighting.frame)
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(frame) - 1))
        frame[at] = data.draw(st.integers(0, 255))
    end = data.draw(st.sampled_from([len(frame), len(frame) // 2, 12, 5, 0]))
    swarm = Swarm(scene)
    swarm.start()
    swarm.run_rounds(3)
    feed(swarm, sighting.source, sighting.target, bytes(frame[:end]))


@settings(_FUZZ, max_examples=40)
@given(data=st.data())
def test_p9_fuzz_a_client_can_cost_others_nothing(
    scene: Scene, eventful: Swarm, data: st.DataObject
) -> None:
    """Mutated frames of client 2 to the relay, between rounds: what others say gets through."""
    sightings = [each for each in eventful.sightings or [] if each.source == client_seat(2)]
    swarm = Swarm(scene)
    swarm.send(0, b"through")
    swarm.start()
    for _ in range(8):
        frame = bytearray(data.draw(st.sampled_from(sightings)).frame)
        frame[data.draw(st.integers(12, len(frame) - 1))] ^= data.draw(st.integers(1, 255))
        if frame[0] not in (Kind.UP, Kind.LEAVE):
            feed(swarm, client_seat(2), RELAY, bytes(frame))
        swarm.run_rounds(1)
    swarm.run_rounds(4)
    assert [event.body for event in swarm.events(CellArrived)] == [b"through"]


def test_p9_fuzz_replays_and_strangers_are_refused(scene: Scene) -> None:
    swarm = Swarm(scene)
    swarm.sightings = []
    swarm.start()
    swarm.run_rounds(10)
    up = next(each.frame for each in swarm.sightings if each.frame[0] == Kind.UP)
    sender = read_header(up).sender
    swarm.relay.receive(up, 0.0, client_seat(sender))
    for source in (client_seat((sender + 1) % 3), guard_seat(sender % 2)):
        with pytest.raises(PeerError):
            swarm.relay.receive(up, 0.0, source)
    other_epoch = bytearray(up)
    other_epoch[8] ^= 1
    with pytest.raises(FrameError):
        swarm.relay.receive(bytes(other_epoch), 0.0, client_seat(sender))
    with pytest.raises(FrameError):
        swarm.guards[0].receive(bytes(other_epoch), 0.0)
    with pytest.raises(FrameError):
        swarm.clients[0].receive(bytes(other_epoch), 0.0)
    ahead = bytearray(up)
    ahead[4:8] = (900).to_bytes(4)
    with pytest.raises(PeerError):
        swarm.relay.receive(bytes(ahead), 0.0, client_seat(sender))
    with pytest.raises(FrameError):
        swarm.relay.receive(up + b"x", 0.0, client_seat(sender))


def test_p9_fuzz_pads_of_a_closed_round_are_ignored_and_ungranted_ones_refused(
    scene: Scene,
) -> None:
    swarm = Swarm(scene)
    swarm.sightings = []
    swarm.start()
    swarm.run_rounds(10)
    pads = next(each for each in swarm.sightings if each.frame[0] == Kind.PADS)
    swarm.relay.receive(pads.frame, 0.0, pads.source)
    swarm.run_rounds(5)
    ahead = bytearray(pads.frame)
    ahead[4:8] = (100_000).to_bytes(4)
    with pytest.raises(FrameError):
        swarm.relay.receive(bytes(ahead), 0.0, pads.source)
    with pytest.raises(FrameError):
        swarm.relay.receive(pads.frame[:-1], 0.0, pads.source)
    assert not swarm.refused
