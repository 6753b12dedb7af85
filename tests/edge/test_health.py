"""What the edge says of itself."""

from headtail_edge.health import Health
from headtail_fabric.clock import FakeClock


class Crew:
    dead = 0


def test_it_is_ready_from_when_it_serves_until_it_is_stopped() -> None:
    clock = FakeClock()
    health = Health(clock)
    assert (health.alive(), health.ready()) == (None, "starting")
    clock.advance(60.0)  # large bundles take a while
    assert health.alive() is None
    health.serving(Crew())
    assert (health.alive(), health.ready()) == (None, None)
    health.stopping()
    assert (health.alive(), health.ready()) == (None, "stopping")


def test_a_loop_that_is_stuck_is_told() -> None:
    clock = FakeClock()
    health = Health(clock)
    health.serving(Crew())
    clock.advance(9.0)
    health.turned()
    clock.advance(9.0)
    assert health.alive() is None
    clock.advance(2.0)
    assert health.alive() == health.ready() == "the server has been stuck for 11 s"


def test_a_worker_that_ended_is_told_unless_the_edge_stops() -> None:
    health, crew = Health(FakeClock()), Crew()
    health.serving(crew)
    crew.dead = 2
    assert health.alive() == "2 workers have ended"
    health.stopping()
    assert health.alive() is None
