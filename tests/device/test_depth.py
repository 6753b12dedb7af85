"""How many frames may be at the edge at once."""

import pytest

from device_doubles import Bench
from headtail_device.depth import Depth
from headtail_device.ledger import Outcome


class BusyEdge:
    """One worker that takes as long for each request, in order."""

    def __init__(self, bench: Bench, each_s: float) -> None:
        self._bench = bench
        self._each_s = each_s
        self._done_at: float | None = None

    def step(self) -> None:
        now = self._bench.clock.now()
        if self._done_at is not None and now >= self._done_at - 1e-9:
            self._done_at = None
            self._bench.respond(compute_us=round(self._each_s * 1e6), queue_us=0)
        if self._done_at is None and self._bench.arrived:
            self._done_at = now + self._each_s


def run(bench: Bench, each_s: float, *, frames: int, deadline_s: float) -> list[int]:
    """A file's frames, taken as soon as they are wanted; how many were in flight at each step."""
    edge, fed, depths = BusyEdge(bench, each_s), 0, []
    while len(bench.finished) < frames:
        while fed < frames and bench.runner.wants_frame:
            bench.feed(fed, deadline_s=deadline_s)
            fed += 1
        depths.append(bench.runner.in_flight)
        edge.step()
        bench.runner.on_time()
        bench.work_off()
        bench.pass_time(0.05)
    return depths


def test_frames_do_not_queue_behind_each_other_until_they_are_late() -> None:
    """Four at once at 0.6 s each would take the last of them beyond its 2 s."""
    bench = Bench(max_in_flight=4, window=8)
    bench.pump()
    run(bench, 0.6, frames=12, deadline_s=2.0)
    assert bench.outcomes == [Outcome.EDGE] * 12


def test_an_edge_that_is_quick_gets_as_many_as_are_allowed() -> None:
    bench = Bench(max_in_flight=4, window=8)
    bench.pump()
    depths = run(bench, 0.1, frames=12, deadline_s=2.0)
    assert bench.outcomes == [Outcome.EDGE] * 12
    assert max(depths) == 4


def test_one_until_anything_is_known_and_half_a_deadlines_worth_then() -> None:
    depth = Depth(8)
    assert depth.limit(2.0) == 1
    depth.answered(sent_at=0.0, now=0.25)
    assert depth.limit(2.0) == 4
    assert depth.limit(0.1) == 1
    assert depth.limit(100.0) == 8
    assert "each_s=0.25" in repr(depth)


def test_requests_under_way_together_cost_what_is_between_their_answers() -> None:
    """A long round trip is no queue."""
    depth = Depth(8)
    for index in range(30):
        depth.answered(sent_at=0.1 * index, now=0.1 * index + 1.0)
    assert depth.limit(2.0) == pytest.approx(8)


def test_what_comes_too_late_counts_at_once() -> None:
    depth = Depth(8)
    depth.answered(sent_at=0.0, now=0.01)
    assert depth.limit(2.0) == 8
    depth.overdue(sent_at=1.0, now=2.9)
    assert depth.limit(2.0) == 1
    depth.overdue(sent_at=2.8, now=2.9)
    assert depth.limit(2.0) == 1


def test_of_a_new_connection_nothing_is_known() -> None:
    depth = Depth(8)
    depth.answered(sent_at=0.0, now=0.0)
    assert depth.limit(2.0) == 8
    depth.lost()
    assert depth.limit(2.0) == 1
