"""Answered here before it is too late: by the whole model while there is time, else by an exit."""

import pytest

from device_doubles import BY_DEVICE, BY_EDGE, BY_EXIT, Bench, verdict
from headtail_device.ledger import Outcome
from headtail_fabric.wire import ErrorCode


def connected(bench: Bench, *, exits: bool = False) -> Bench:
    bench.pump()
    bench.head.verdicts = (verdict(0.5),) if exits else ()
    return bench


def taught(bench: Bench) -> Bench:
    """One frame has shown how long the whole model takes (0.1 s)."""
    bench.feed(0)
    bench.fail(ErrorCode.INTERNAL)
    bench.work_off()
    bench.finished.clear()
    return bench


def test_the_whole_model_begins_in_time() -> None:
    bench = taught(connected(Bench()))
    began_at = bench.clock.now()
    bench.feed(1, deadline_s=1.0)
    # 0.1 s for the model, 0.01 s for a head that may be running
    assert bench.runner.next_timer_in_s == pytest.approx(1.0 - 0.01 - 0.1 - 0.01)
    bench.clock.advance(0.88)
    bench.runner.on_time()
    assert bench.runner.has_work
    bench.work_off()
    (finished,) = bench.finished
    record = finished.record
    assert (record.outcome, record.answer) == (Outcome.DEGRADED, BY_DEVICE)
    assert record.reason == "the edge did not answer in time"
    assert bench.clock.now() < began_at + 1.0


def test_a_late_answer_is_counted_and_dropped() -> None:
    bench = taught(connected(Bench()))
    bench.feed(1, deadline_s=1.0)
    bench.clock.advance(0.9)
    bench.runner.on_time()
    bench.respond()
    bench.work_off()
    assert bench.outcomes == [Outcome.DEGRADED]
    assert bench.runner.late_answers == 1
    assert bench.runner.idle


def test_an_answer_just_in_time_is_taken() -> None:
    bench = taught(connected(Bench()))
    bench.feed(1, deadline_s=1.0)
    bench.clock.advance(0.87)
    bench.runner.on_time()
    bench.respond()
    assert bench.finished[0].record.answer == BY_EDGE
    assert bench.runner.late_answers == 0


def test_a_request_that_ends_after_its_frame_ends_nothing() -> None:
    bench = taught(connected(Bench()))
    bench.feed(1, deadline_s=1.0)
    bench.clock.advance(0.9)
    bench.runner.on_time()
    bench.work_off()
    bench.pass_time(1.0)  # the port expires it
    assert bench.outcomes == [Outcome.DEGRADED]
    bench.runner.give_up_edge("the test is over")
    assert bench.runner.idle


def test_an_edge_has_half_the_time_however_slow_the_model_is() -> None:
    bench = taught(connected(Bench()))
    bench.feed(1, deadline_s=0.11)
    assert bench.runner.next_timer_in_s == pytest.approx(0.05)


def test_an_exit_answers_when_the_model_would_be_late() -> None:
    bench = taught(connected(Bench(late="expire")))
    bench.head.verdicts = (verdict(0.5),)
    bench.feed(1, deadline_s=1.0)
    assert bench.runner.next_timer_in_s == pytest.approx(1.0 - 0.01 - 0.01)
    bench.clock.advance(0.98)
    bench.runner.on_time()
    (finished,) = bench.finished
    record = finished.record
    assert (record.outcome, record.gate, record.answer) == (Outcome.DEGRADED, "exit", BY_EXIT)
    assert record.macs == 10
    assert record.latency is not None
    assert record.latency.total_s < 1.0
    assert bench.ledger.totals().gates == {"exit": 1}


def test_while_there_is_time_the_model_is_the_better_answer() -> None:
    bench = taught(connected(Bench()))
    bench.head.verdicts = (verdict(0.5),)
    bench.feed(1, deadline_s=1.0)
    bench.fail(ErrorCode.INTERNAL)
    bench.work_off()
    record = bench.finished[0].record
    assert (record.answer, record.gate) == (BY_DEVICE, "")
    assert record.verdicts == bench.head.verdicts


def test_a_debt_that_grew_too_late_is_paid_by_the_exit() -> None:
    bench = taught(connected(Bench()))
    bench.head.verdicts = (verdict(0.5),)
    for index in (1, 2, 3):
        bench.feed(index, deadline_s=0.5)
    bench.fail(ErrorCode.INTERNAL)
    bench.clock.advance(0.42)
    bench.work_off()
    assert bench.finished[0].record.answer == BY_EXIT


def test_frames_that_queue_behind_the_model_are_not_made_late() -> None:
    bench = taught(connected(Bench()))
    bench.head.verdicts = (verdict(0.5),)
    for index in (1, 2, 3):
        bench.feed(index, deadline_s=0.25)
    bench.link.cut()
    bench.pump()
    bench.work_off()
    assert [f.record.answer for f in bench.finished] == [BY_DEVICE, BY_DEVICE, BY_EXIT]


def test_past_its_deadline_a_live_frame_is_no_news_to_an_exit_either() -> None:
    bench = taught(connected(Bench(late="expire")))
    bench.head.verdicts = (verdict(0.5),)
    bench.feed(1, deadline_s=0.5)
    bench.clock.advance(0.6)
    bench.runner.on_time()
    bench.work_off()
    assert bench.outcomes == [Outcome.EXPIRED]
