"""The device answers beside the edge when that is slow; whoever is first counts."""

import pytest

from device_doubles import BY_DEVICE, BY_EDGE, WAY, Bench
from headtail_device.hedges import HedgeCount
from headtail_device.ledger import Outcome
from headtail_device.policy import FixedPolicy
from headtail_fabric.errors import ResourceError
from headtail_fabric.wire import ErrorCode
from scripted_policy import ScriptedPolicy, forecast


def hedging(*, upper_s: float = 0.2, hedge: bool = True) -> tuple[Bench, ScriptedPolicy]:
    """With a frame at the edge, for 0.01 s now."""
    policy = ScriptedPolicy(expects=forecast(upper_s=upper_s))
    bench = Bench(policy=policy, hedge=hedge)
    bench.pump()
    bench.feed(0)
    return bench, policy


def test_nothing_is_computed_here_before_the_forecast_has_passed() -> None:
    bench, _ = hedging()
    assert bench.runner.next_timer_in_s == pytest.approx(0.19)
    bench.pass_time(0.18)
    bench.runner.on_time()
    assert not bench.runner.has_work
    bench.respond()
    assert bench.outcomes == [Outcome.EDGE]
    assert bench.runner.hedges == HedgeCount()


def test_then_this_device_is_asked_as_well_and_answers_if_it_is_the_first() -> None:
    bench, policy = hedging()
    bench.pass_time(0.19)
    bench.runner.on_time()
    assert bench.runner.has_work
    assert not bench.runner.wants_frame, "this thread is about to compute"
    bench.runner.work()
    assert bench.runner.in_flight == 1, "the edge may still be the first"
    bench.runner.work()
    (finished,) = bench.finished
    record = finished.record
    assert (record.outcome, record.answer) == (Outcome.DEGRADED, BY_DEVICE)
    assert "slower than this device" in record.reason
    assert record.macs == 1010
    assert record.latency is not None
    assert record.latency.total_s == pytest.approx(0.3)
    assert bench.runner.hedges == HedgeCount(started=1, won=1)
    was = policy.last()
    assert not was.answered
    assert was.device_s == pytest.approx(0.01)
    bench.respond()
    assert bench.runner.late_answers == 1
    assert len(bench.finished) == 1


def test_an_answer_that_comes_while_this_device_computes_is_the_first() -> None:
    bench, policy = hedging()
    bench.pass_time(0.19)
    bench.runner.on_time()
    bench.runner.work()
    bench.respond()
    (finished,) = bench.finished
    assert (finished.record.outcome, finished.record.answer) == (Outcome.EDGE, BY_EDGE)
    assert finished.record.macs == 1010, "what was computed in vain counts"
    assert bench.runner.hedges == HedgeCount(started=1, won=0)
    assert not bench.runner.has_work
    assert policy.last().answered


def test_an_answer_before_this_device_begins_saves_the_work() -> None:
    bench, _ = hedging()
    bench.pass_time(0.19)
    bench.runner.on_time()
    bench.respond()
    assert not bench.runner.has_work
    assert bench.runner.hedges == HedgeCount()


@pytest.mark.parametrize("how", ["fails", "breaks", "expires", "stops"])
def test_what_was_computed_beside_answers_when_the_edge_does_not(how: str) -> None:
    bench, policy = hedging()
    bench.pass_time(0.19)
    bench.runner.on_time()
    bench.runner.work()
    match how:
        case "fails":
            bench.fail(ErrorCode.INTERNAL)
        case "breaks":
            bench.link.cut()
            bench.pump()
        case "expires":
            bench.pass_time(1.0)
        case "stops":
            bench.runner.give_up_edge("the device is stopping")
    assert bench.outcomes == [Outcome.DEGRADED]
    assert bench.finished[0].record.answer == BY_DEVICE
    assert not bench.runner.has_work, "nothing is computed twice"
    assert len(policy.told) == 1


def test_a_model_that_fails_beside_leaves_the_frame_to_the_edge() -> None:
    bench, _ = hedging()
    bench.head.whole_error = ResourceError("no memory")
    bench.pass_time(0.19)
    bench.runner.on_time()
    bench.work_off()
    assert bench.outcomes == []
    bench.respond()
    assert bench.outcomes == [Outcome.EDGE]


def test_a_frame_is_hedged_once() -> None:
    bench, _ = hedging()
    bench.head.whole_error = ResourceError("no memory")
    for _ in range(3):
        bench.pass_time(0.19)
        bench.runner.on_time()
        bench.work_off()
    assert bench.runner.hedges.started == 1


def test_without_the_setting_or_a_forecast_nothing_is_hedged() -> None:
    bench, _ = hedging(hedge=False)
    bench.pass_time(0.5)
    bench.runner.on_time()
    assert not bench.runner.has_work
    blind = Bench(policy=FixedPolicy(remote=WAY), hedge=True)
    blind.pump()
    blind.feed(0)
    blind.pass_time(0.5)
    blind.runner.on_time()
    assert not blind.runner.has_work
