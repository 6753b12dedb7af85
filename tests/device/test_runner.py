"""The device's decisions, against an edge in memory and a clock turned by hand."""

import logging
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device_doubles import BY_DEVICE, BY_EDGE, DIGEST, Bench, frame
from headtail_device.config import Late
from headtail_device.ledger import Outcome
from headtail_device.policy import LocalPolicy
from headtail_device.record import FrameRecord
from headtail_device.source import Dropped, Unreadable
from headtail_fabric.codec import CodecError
from headtail_fabric.errors import HeadtailError, ResourceError
from headtail_fabric.peer.events import Answered, Disconnected
from headtail_fabric.wire import DType, ErrorCode, Hints, TensorInfo, Timings
from runner_acts import ACTIONS, act, ended


def connected(bench: Bench) -> Bench:
    bench.pump()
    assert bench.runner.edge.ready
    return bench


def only(bench: Bench) -> FrameRecord:
    (finished,) = bench.finished
    return finished.record


def test_a_frame_is_answered_by_the_edge() -> None:
    bench = connected(Bench())
    bench.feed(0)
    assert bench.runner.in_flight == 1
    bench.clock.advance(0.02)
    bench.respond(compute_us=2000, queue_us=1000)
    record = only(bench)
    assert record.outcome is Outcome.EDGE
    assert record.answer == BY_EDGE
    assert (record.cut, record.codec, record.attempts) == ("middle", "raw", 1)
    assert record.payload_bytes == 1
    assert record.bytes_up > 1
    assert record.bytes_down > 1
    assert record.latency is not None
    assert record.latency.total_s == pytest.approx(0.03)
    assert record.latency.head_s == pytest.approx(0.01)
    assert record.latency.queue_s == pytest.approx(0.001)
    assert record.latency.tail_s == pytest.approx(0.002)
    assert bench.runner.idle


def test_no_frame_is_wanted_while_the_edge_may_still_come() -> None:
    bench = Bench(patience_s=2.0)
    assert not bench.runner.wants_frame
    assert bench.runner.patience_left_s == 2.0
    bench.pump()
    assert bench.runner.wants_frame


def test_without_an_edge_the_device_answers_degraded() -> None:
    bench = Bench(patience_s=2.0)
    bench.link.cut()
    bench.pass_time(2.0)
    assert bench.runner.wants_frame
    bench.feed(0)
    assert bench.runner.has_work
    assert not bench.runner.wants_frame
    bench.work_off()
    record = only(bench)
    assert (record.outcome, record.answer) == (Outcome.DEGRADED, BY_DEVICE)
    assert record.reason == "the edge can't be used now"
    assert record.latency is not None
    assert record.latency.head_s == pytest.approx(0.1)


def test_by_choice_the_device_answers_local() -> None:
    bench = Bench(policy=LocalPolicy(), patience_s=0.0)
    bench.feed(0)
    bench.work_off()
    assert (only(bench).outcome, only(bench).reason) == (Outcome.LOCAL, "")


def test_frames_are_asked_for_while_the_window_has_room() -> None:
    bench = connected(Bench(window=2))
    bench.feed(0)
    bench.feed(1)
    assert not bench.runner.wants_frame
    bench.respond()
    assert bench.runner.wants_frame


def test_the_devices_own_limit_holds_too() -> None:
    bench = connected(Bench(window=8, max_in_flight=1))
    bench.feed(0)
    assert not bench.runner.wants_frame


def test_answers_out_of_order_leave_in_order() -> None:
    bench = connected(Bench())
    for index in range(3):
        bench.feed(index)
    bench.arrived.reverse()
    for _ in range(3):
        bench.respond()
    assert [finished.record.index for finished in bench.finished] == [0, 1, 2]


def test_when_the_edge_dies_what_is_in_flight_is_answered_here() -> None:
    bench = connected(Bench())
    bench.feed(0)
    bench.feed(1)
    bench.link.cut("power cut")
    bench.pump()
    assert repr(bench.runner) == (
        "<Runner <EdgeState 'edge' connected=False ready=False> in_flight=0 owed=2>"
    )
    bench.work_off()
    assert bench.outcomes == [Outcome.DEGRADED, Outcome.DEGRADED]
    assert {finished.record.reason for finished in bench.finished} == {
        "the connection broke: power cut"
    }


def test_the_device_returns_to_the_edge_when_it_comes_back() -> None:
    bench = connected(Bench())
    bench.feed(0)
    bench.restart_server()
    bench.pump()
    bench.work_off()
    assert bench.runner.wants_frame
    bench.feed(1)
    bench.respond()
    assert bench.outcomes == [Outcome.DEGRADED, Outcome.EDGE]


def test_an_answer_that_comes_after_the_frame_was_given_up_is_ignored() -> None:
    bench = connected(Bench())
    bench.feed(0)
    bench.close_books()
    bench.runner.on_event(
        Answered(
            id=1,
            tensors=(),
            payloads=(),
            timings=Timings(),
            hints=Hints(),
            sent_at=0,
            received_at=0,
            attempts=1,
            bytes_up=1,
            bytes_down=1,
        )
    )
    assert bench.outcomes == [Outcome.DEGRADED]


@pytest.mark.parametrize(
    ("late", "outcome"), [("answer", Outcome.DEGRADED), ("expire", Outcome.EXPIRED)]
)
def test_a_frame_past_its_deadline_is_answered_or_not_as_configured(
    late: Late, outcome: Outcome
) -> None:
    bench = connected(Bench(late=late))
    bench.feed(0, deadline_s=0.5)
    bench.pass_time(0.6)
    bench.work_off()
    assert bench.outcomes == [outcome]
    assert only(bench).reason == "the edge did not answer in time"


def test_a_live_frame_that_is_old_already_is_not_computed() -> None:
    bench = connected(Bench(late="expire"))
    bench.runner.on_item(frame(0, captured_at=90.0, deadline_s=1.0))
    bench.head.whole_error = ResourceError("must not be asked")
    bench.work_off()
    assert bench.outcomes == [Outcome.EXPIRED]
    assert only(bench).reason == "its deadline passed before its turn"


def test_a_files_frame_that_is_old_already_is_answered_here() -> None:
    bench = connected(Bench(late="answer"))
    bench.runner.on_item(frame(0, captured_at=90.0, deadline_s=1.0))
    bench.work_off()
    assert bench.outcomes == [Outcome.DEGRADED]
    assert only(bench).reason == "its deadline passed before its turn"


def test_a_head_that_takes_too_long_is_not_sent() -> None:
    bench = connected(Bench())
    bench.head.head_s = 2.0
    bench.feed(0, deadline_s=1.0)
    assert bench.runner.in_flight == 0
    bench.work_off()
    assert only(bench).reason == "the head took too long"
    assert only(bench).latency is not None


def test_a_link_that_breaks_while_the_head_runs_costs_no_frame() -> None:
    bench = connected(Bench())
    bench.head.during_encode = bench.link.cut
    bench.feed(0)
    bench.work_off()
    assert bench.outcomes == [Outcome.DEGRADED]
    assert only(bench).reason == "the connection broke"


def test_a_picture_that_is_too_large_for_the_wire_is_answered_here() -> None:
    bench = connected(Bench())
    bench.head.tensor = TensorInfo(
        name="input", dtype=DType.UINT8, shape=(1, 9000, 9000, 3), codec="jpeg"
    )
    bench.feed(0)
    bench.work_off()
    assert bench.outcomes == [Outcome.DEGRADED]
    assert "too large" in only(bench).reason
    assert bench.runner.edge.ready


def test_a_frame_that_ran_late_before_its_turn_goes_nowhere() -> None:
    bench = Bench(late="expire", policy=LocalPolicy(), patience_s=0.0)
    bench.feed(0, deadline_s=0.5)
    bench.clock.advance(0.6)
    bench.work_off()
    assert bench.outcomes == [Outcome.EXPIRED]
    assert only(bench).reason == "its deadline passed"


def test_a_busy_edge_is_left_alone_for_as_long_as_it_asked() -> None:
    bench = connected(Bench())
    bench.feed(0, deadline_s=0.5)
    bench.refuse(retry_after_s=3.0)
    bench.work_off()
    assert only(bench).reason == "the edge was too busy"
    bench.feed(1)
    bench.work_off()
    assert bench.outcomes == [Outcome.DEGRADED, Outcome.DEGRADED]
    assert bench.finished[1].record.reason == "the edge was too busy"
    bench.pass_time(3.1)
    bench.feed(2)
    bench.respond()
    assert bench.outcomes[-1] is Outcome.EDGE


def test_a_failure_of_one_request_leaves_the_edge_usable(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = connected(Bench())
    with caplog.at_level(logging.ERROR):
        for index in range(3):
            bench.feed(index)
            bench.fail(ErrorCode.INTERNAL)
            bench.work_off()
    assert bench.runner.edge.ready
    assert bench.outcomes == [Outcome.DEGRADED] * 3
    assert len(caplog.records) == 1


def test_an_edge_that_refuses_all_is_not_asked_again_until_it_changes() -> None:
    bench = connected(Bench())
    bench.feed(0)
    bench.fail(ErrorCode.UNKNOWN_BUNDLE)
    bench.work_off()
    assert not bench.runner.edge.ready
    bench.server.serve_bundles([])
    bench.server.serve_bundles([DIGEST])
    bench.pump()
    assert bench.runner.edge.ready


def test_an_answer_without_sense_is_replaced_by_the_devices_own() -> None:
    bench = connected(Bench())
    bench.head.decode_error = CodecError("nonsense")
    bench.feed(0)
    bench.respond()
    bench.work_off()
    assert (only(bench).outcome, only(bench).answer) == (Outcome.DEGRADED, BY_DEVICE)


@pytest.mark.parametrize("error", [ResourceError("no memory"), ValueError("no picture")])
def test_a_head_that_fails_leaves_the_whole_model(error: HeadtailError | ValueError) -> None:
    bench = connected(Bench())
    bench.head.encode_error = error
    bench.feed(0)
    bench.work_off()
    assert bench.outcomes == [Outcome.DEGRADED]
    assert "the head failed" in only(bench).reason


def test_a_frame_that_nothing_can_answer_has_failed() -> None:
    bench = connected(Bench())
    bench.head.encode_error = bench.head.whole_error = ResourceError("no memory")
    bench.feed(0)
    bench.work_off()
    assert bench.outcomes == [Outcome.FAILED]
    assert only(bench).reason == "the whole model failed: no memory"


def test_what_has_no_picture_has_its_outcome_at_once() -> None:
    bench = connected(Bench())
    bench.runner.on_item(Unreadable(index=0, origin="test#0", reason="broken"))
    bench.runner.on_item(Dropped(index=1, origin="test#1"))
    assert bench.outcomes == [Outcome.UNREADABLE, Outcome.DROPPED]
    assert [finished.picture for finished in bench.finished] == [None, None]


def test_a_bundle_the_edge_lacks_is_pushed_when_allowed() -> None:
    bench = Bench(serves=(), packed=lambda: b"packed bundle")
    bench.pump()
    assert not bench.runner.edge.ready
    bench.server.need_bundle(bench.session, DIGEST, 0)
    bench.pump()
    assert bench.runner.pushed_bytes == 13
    bench.server.serve_bundles([DIGEST])
    bench.pump()
    assert bench.runner.edge.ready


def test_a_bundle_that_cannot_be_packed_costs_only_the_edge(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def packed() -> bytes:
        raise ResourceError("disk full")

    bench = Bench(serves=(), packed=packed)
    bench.pump()
    bench.server.need_bundle(bench.session, DIGEST, 0)
    bench.pump()
    assert "can't be packed" in caplog.text
    assert bench.runner.pushed_bytes == 0


def test_a_bundle_the_edge_lacks_is_told_once_when_it_must_not_be_pushed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench(serves=())
    bench.pump()
    bench.server.need_bundle(bench.session, DIGEST, 0)
    bench.pump()
    bench.server.need_bundle(bench.session, DIGEST, 0)
    bench.pump()
    told = [record for record in caplog.records if "lacks the bundle" in record.message]
    assert len(told) == 1
    assert "push_bundles" in told[0].message


def test_an_edge_that_is_gone_for_good_is_not_waited_for() -> None:
    bench = Bench(patience_s=60.0)
    bench.runner.on_event(Disconnected(reason="another version", final=True))
    assert bench.runner.wants_frame


@pytest.mark.parametrize("outcome", [Outcome.EXIT, Outcome.FILTERED])
def test_a_frame_that_a_gate_ended_is_not_sent(outcome: Outcome) -> None:
    bench = connected(Bench())
    bench.head.ended = ended(outcome)
    bench.feed(0)
    record = only(bench)
    assert (record.outcome, record.answer) == (outcome, BY_DEVICE)
    assert (record.gate, record.macs, record.cut, record.codec) == ("presence", 3, "middle", None)
    assert record.verdicts[0].confidence == 0.25
    assert (record.bytes_up, record.payload_bytes, record.attempts) == (0, 0, 0)
    assert record.latency is not None
    assert record.latency.head_s == pytest.approx(0.01)
    assert record.latency.total_s == pytest.approx(0.01)
    assert not bench.arrived
    assert bench.runner.idle
    totals = bench.ledger.totals()
    assert (totals.macs, totals.gates, totals.answered) == (3, {"presence": 1}, 1)


def test_frames_that_gates_end_take_no_room_in_the_window() -> None:
    bench = connected(Bench(window=1))
    bench.head.ended = ended(Outcome.EXIT)
    for index in range(3):
        assert bench.runner.wants_frame
        bench.feed(index)
    assert bench.outcomes == [Outcome.EXIT] * 3


def test_a_frame_that_a_gate_ended_leaves_after_those_before_it() -> None:
    bench = connected(Bench())
    bench.feed(0)
    bench.head.ended = ended(Outcome.FILTERED)
    bench.feed(1)
    assert bench.outcomes == []
    bench.respond()
    assert bench.outcomes == [Outcome.EDGE, Outcome.FILTERED]


def test_without_an_edge_no_gate_is_asked() -> None:
    bench = Bench(patience_s=0.0)
    bench.head.ended = ended(Outcome.EXIT)
    bench.feed(0)
    bench.work_off()
    assert bench.outcomes == [Outcome.DEGRADED]


def test_what_was_computed_is_counted_the_vain_head_included() -> None:
    bench = connected(Bench())
    bench.feed(0)
    bench.feed(1)
    bench.respond()
    bench.fail(ErrorCode.INTERNAL)
    bench.work_off()
    assert [finished.record.macs for finished in bench.finished] == [10, 1010]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(ACTIONS), max_size=60), st.sampled_from(get_args(Late)))
def test_every_frame_leaves_once_whatever_happens(actions: list[str], late: Late) -> None:
    bench = Bench(late=late, window=3)
    bench.pump()
    index = 0
    for action in actions:
        index += act(bench, action, index)
        bench.pump()
        totals = bench.ledger.totals()
        assert totals.frames == index == totals.open + sum(totals.outcomes.values())
    bench.close_books()
    totals = bench.ledger.totals()
    assert bench.runner.idle
    assert (totals.open, sum(totals.outcomes.values())) == (0, index)
    assert [finished.record.index for finished in bench.finished] == list(range(index))
