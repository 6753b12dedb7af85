"""A head that begins after a pause says that its tail is due."""

import pytest

from device_doubles import BY_EXIT, DIGEST, Bench, frame, verdict
from headtail_device.announcer import PAUSE_S
from headtail_device.head import Ended
from headtail_device.ledger import Outcome
from headtail_device.policy import LocalPolicy
from headtail_device.record import Cost
from headtail_fabric.peer.events import RequestArrived, TailAnnounced

HEAD_S = 0.01


def heard(bench: Bench) -> list[TailAnnounced | RequestArrived]:
    """What came at the edge of one more frame, in order."""
    bench.runner.on_item(frame(len(bench.finished), captured_at=bench.clock.now()))
    came: list[TailAnnounced | RequestArrived] = []
    while (event := bench.server.poll(0)) is not None:
        assert isinstance(event, TailAnnounced | RequestArrived)
        came.append(event)
        if isinstance(event, RequestArrived):
            bench.arrived.append(event)
            bench.respond()
    return came


def connected(bench: Bench) -> Bench:
    bench.pump()
    return bench


def test_only_after_a_pause() -> None:
    bench = connected(Bench())
    due, request = heard(bench)
    assert isinstance(due, TailAnnounced)
    assert isinstance(request, RequestArrived)
    assert (due.bundle, due.cut, due.due_s) == (DIGEST, request.request.cut, 0.0)
    bench.clock.advance(PAUSE_S / 2)
    (alone,) = heard(bench)
    assert isinstance(alone, RequestArrived)
    bench.clock.advance(PAUSE_S)
    due, _ = heard(bench)
    assert isinstance(due, TailAnnounced)
    assert due.due_s == pytest.approx(HEAD_S), "what the last ones took"


def test_it_is_on_its_way_while_the_head_runs() -> None:
    bench = connected(Bench())
    came: list[object] = []

    def listen() -> None:
        came.append(bench.server.poll(0))

    bench.head.during_encode = listen
    heard(bench)
    assert isinstance(came[0], TailAnnounced)


def test_a_frame_that_a_gate_ends_is_not_announced() -> None:
    bench = connected(Bench())
    cost = Cost(seconds=HEAD_S, macs=1)
    bench.head.ended = Ended(
        outcome=Outcome.EXIT, answer=BY_EXIT, verdicts=(verdict(0.9),), cost=cost
    )
    assert heard(bench) == []


def test_a_frame_that_stays_here_is_not_announced() -> None:
    bench = connected(Bench(policy=LocalPolicy()))
    assert heard(bench) == []


def test_where_it_is_not_wanted() -> None:
    bench = connected(Bench(announce_tails=False))
    (alone,) = heard(bench)
    assert isinstance(alone, RequestArrived)
