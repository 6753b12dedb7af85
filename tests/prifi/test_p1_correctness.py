"""Property 1: what the relay hears is what the owner said, and silent slots are zero."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headtail_prifi.core.events import CellArrived, CellDelivered, DataReceived
from headtail_prifi.core.geometry import Geometry
from headtail_prifi.core.messages import NOBODY
from headtail_prifi.core.seat import Role, client_seat
from headtail_prifi.crypto.cipher import cipher_named
from headtail_prifi.swarm import Links, Scene, Swarm, set_scene

_SLOW = settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)


def paper_links(loss: float = 0.0) -> Links:
    """10 ms to clients, 100 ms to guards: the paper's topology."""
    return Links(
        delay_s=lambda seat: 0.01 if seat.role is Role.CLIENT else 0.1, loss=lambda seat: loss
    )


@st.composite
def geometries(draw: st.DrawFn) -> Geometry:
    return Geometry(
        clients=draw(st.integers(2, 9)),
        cell_bytes=draw(st.integers(128, 700)),
        sub_slots=draw(st.integers(1, 4)),
        window=draw(st.integers(1, 4)),
    )


@_SLOW
@given(
    geometry=geometries(),
    guards=st.integers(1, 4),
    speech=st.lists(st.tuples(st.integers(0, 8), st.binary(max_size=108)), max_size=30),
)
def test_p1_correctness_over_random_sizes(
    geometry: Geometry, guards: int, speech: list[tuple[int, bytes]]
) -> None:
    swarm = Swarm(set_scene(geometry.clients, guards, geometry), links=paper_links())
    swarm.start()
    said: dict[int, list[bytes]] = {client: [] for client in range(geometry.clients)}
    ids: dict[int, list[int]] = {client: [] for client in range(geometry.clients)}
    for client, body in speech:
        client %= geometry.clients
        said[client].append(body)
        ids[client].append(swarm.send(client, body))
        swarm.run_rounds(1)
    swarm.run_rounds(10 * geometry.window + 40)
    assert not swarm.refused
    for client, bodies in said.items():
        assert swarm.bodies(swarm.slot(client)) == bodies
        delivered = swarm.events(CellDelivered, client_seat(client))
        assert [event.id for event in delivered] == ids[client]
        assert swarm.clients[client].waiting == 0


def test_p1_correctness_at_forty_clients_and_five_guards() -> None:
    geometry = Geometry(clients=40, cell_bytes=256, sub_slots=3, window=4)
    swarm = Swarm(set_scene(40, 5, geometry), links=paper_links())
    for client in range(0, 40, 3):
        swarm.send(client, b"from %d" % client)
    swarm.start()
    swarm.run_rounds(40)
    for client in range(0, 40, 3):
        assert swarm.bodies(swarm.slot(client)) == [b"from %d" % client]


def test_p1_correctness_more_than_128_clients_reserve_in_two_lanes() -> None:
    geometry = Geometry(clients=130, cell_bytes=128, sub_slots=8, window=1)
    assert geometry.reservation_lanes == 2
    swarm = Swarm(set_scene(130, 1, geometry))
    for client in range(130):
        swarm.send(client, b"%d" % client)
    swarm.start()
    swarm.run_rounds(25)
    assert len(swarm.events(CellArrived)) == 130


@pytest.fixture(scope="module")
def scene() -> Scene:
    return set_scene(5, 2, Geometry(clients=5, cell_bytes=200, sub_slots=2, window=2))


def test_p1_correctness_silent_slots_are_zero(scene: Scene) -> None:
    swarm = Swarm(scene)
    swarm.send(1, b"one cell only")
    swarm.start()
    swarm.run_rounds(8)
    books = swarm.relay._engine.books
    geometry = swarm.relay._engine._geometry
    spoken = 0
    for round_ in range(6):
        record = books.closed(round_)
        assert record is not None
        assert record.opened is not None
        for sub_slot, owner in enumerate(record.owners):
            cell = record.opened[sub_slot * 200 : (sub_slot + 1) * 200]
            lane = geometry.key_lane_start(sub_slot)
            key = record.opened[lane : lane + 16]
            if owner == NOBODY:
                assert not cell.any()
                assert not key.any()
            else:
                spoken += 1
    assert spoken == 1


def test_p1_correctness_a_lone_speaker_gets_every_sub_slot(scene: Scene) -> None:
    swarm = Swarm(scene)
    for number in range(40):
        swarm.send(3, b"%d" % number)
    swarm.start()
    swarm.run_rounds(2 + 2 * 2 + 20)
    assert swarm.bodies(swarm.slot(3)) == [b"%d" % number for number in range(40)]


def test_p1_correctness_speakers_share_fairly(scene: Scene) -> None:
    swarm = Swarm(scene)
    for number in range(100):
        for client in range(4):
            swarm.send(client, b"%d" % number)
    swarm.start()
    swarm.run_rounds(60)
    heard = [len(swarm.bodies(swarm.slot(client))) for client in range(4)]
    assert max(heard) - min(heard) <= 2
    assert sum(heard) > 100


def test_p1_correctness_downstream_reaches_everybody_in_order(scene: Scene) -> None:
    swarm = Swarm(scene, links=paper_links())
    swarm.start()
    sent = [b"news %d" % number * 50 for number in range(60)]
    for data in sent:
        swarm.broadcast(data)
    swarm.run_rounds(20)
    for client in range(5):
        received = swarm.events(DataReceived, client_seat(client))
        assert [event.data for event in received] == sent


def test_p1_correctness_cipher_backends_give_the_same_frames(scene: Scene) -> None:
    views = []
    for name in ("pycryptodome", "cryptography"):
        swarm = Swarm(scene, cipher=cipher_named(name))
        swarm.sightings = []
        swarm.send(2, b"the same either way")
        swarm.start()
        swarm.run_rounds(70)
        views.append(swarm.sightings)
    assert views[0] == views[1]


def test_p1_correctness_p256_works_as_well() -> None:
    geometry = Geometry(clients=3, cell_bytes=128)
    swarm = Swarm(set_scene(3, 2, geometry, group="p256"))
    swarm.send(0, b"slower")
    swarm.start()
    swarm.run_rounds(6)
    assert swarm.bodies(swarm.slot(0)) == [b"slower"]


def test_p1_correctness_idle_rounds_slow_down_and_wake(scene: Scene) -> None:
    swarm = Swarm(scene)
    swarm.start()
    swarm.run_until(1.0)
    idle = swarm.relay.next_round
    assert 40 < idle < 150
    assert swarm.relay.next_timer() is not None
    for number in range(400):
        swarm.send(4, b"%d" % number)
    swarm.run(lambda: len(swarm.bodies(swarm.slot(4))) == 400, 1.2)
    assert len(swarm.bodies(swarm.slot(4))) == 400
