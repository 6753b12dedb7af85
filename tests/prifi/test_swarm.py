"""The double itself: order, loss, silence, and what it says when it gets stuck."""

import pytest

from headtail_prifi.core.geometry import Geometry
from headtail_prifi.core.seat import CLIENTS, GUARDS, RELAY, Seat, client_seat, guard_seat
from headtail_prifi.swarm import Links, Scene, Swarm, set_scene

GEOMETRY = Geometry(clients=3, cell_bytes=128)


@pytest.fixture(scope="module")
def scene() -> Scene:
    return set_scene(3, 1, GEOMETRY)


def test_a_run_is_a_function_of_its_seed(scene: Scene) -> None:
    def record(seed: bytes) -> list[object]:
        swarm = Swarm(
            scene, seed=seed, links=Links(delay_s=lambda seat: 0.01, loss=lambda seat: 0.1)
        )
        swarm.sightings = []
        swarm.send(0, b"x")
        swarm.start()
        swarm.run_rounds(20)
        return list(swarm.sightings)

    assert record(b"a") == record(b"a")
    assert record(b"a") != record(b"b")


def test_stuck_swarms_say_where(scene: Scene) -> None:
    swarm = Swarm(scene)
    swarm.silent.update({client_seat(0), guard_seat(0)})
    swarm.start()
    with pytest.raises(AssertionError, match="round 2 of 12"):
        swarm.run_rounds(10, within_s=0.1)


def test_slots_and_owners_are_inverse(scene: Scene) -> None:
    swarm = Swarm(scene)
    assert [swarm.owner(swarm.slot(client)) for client in range(3)] == [0, 1, 2]


def test_seats_have_names() -> None:
    assert [repr(seat) for seat in (RELAY, client_seat(3), guard_seat(1), CLIENTS, GUARDS)] == [
        "relay",
        "client 3",
        "guard 1",
        "clients",
        "guards",
    ]
    assert Seat(client_seat(1).role, 1) == client_seat(1)
