"""What a policy is shown and told: everything it decides on comes back once."""

from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device_doubles import DIGEST, WAY, Bench
from headtail_device.config import Late
from headtail_device.decision import Reason
from headtail_device.ledger import Outcome
from headtail_device.placement import Local, Split
from headtail_device.spool.memory import MemoryDisk
from headtail_fabric.errors import ResourceError
from headtail_fabric.peer.events import Alternative
from headtail_fabric.wire import ErrorCode
from headtail_models.bundle.errors import UnknownCutError
from runner_acts import ACTIONS, act, ended
from scripted_policy import ScriptedPolicy
from spool_world import spooling

HERE = Local(degraded=False)


def connected(policy: ScriptedPolicy, **how: object) -> Bench:
    bench = Bench(policy=policy, **how)  # type: ignore[arg-type]
    bench.pump()
    return bench


def test_it_is_shown_what_is_under_way_and_for_how_long() -> None:
    policy = ScriptedPolicy()
    bench = connected(policy)
    bench.feed(0)
    bench.pass_time(0.3)
    bench.feed(1)
    first, second = policy.seen
    assert (first.in_flight, first.oldest_s) == (0, 0.0)
    assert second.in_flight == 1
    assert second.now == pytest.approx(100.31)
    assert second.oldest_s == pytest.approx(0.3)


def test_of_an_answer_it_is_told_where_the_time_went() -> None:
    policy = ScriptedPolicy()
    bench = connected(policy)
    bench.feed(0)
    bench.clock.advance(0.05)
    bench.respond(compute_us=20_000, queue_us=7_000)
    was = policy.last()
    assert (was.answered, was.exited, was.payload_bytes) == (True, False, 1)
    assert was.device_s == pytest.approx(0.01)
    assert was.total_s == pytest.approx(0.06)
    assert was.server_s == pytest.approx(0.02)
    assert was.queue_s == pytest.approx(0.007)
    assert was.wire_s is not None
    (finished,) = bench.finished
    assert finished.record.decision is policy.decided[0]


def test_the_exit_point_goes_to_the_head() -> None:
    bench = connected(ScriptedPolicy(exit_point="eager"))
    bench.feed(0)
    assert bench.head.points == ["eager"]


def test_of_an_exit_it_is_told() -> None:
    policy = ScriptedPolicy()
    bench = connected(policy)
    bench.head.ended = ended(Outcome.EXIT)
    bench.feed(0)
    assert policy.last().exited
    assert policy.last().device_s == pytest.approx(0.01)


def test_of_an_answer_of_this_device_it_is_told_when_it_is_there() -> None:
    policy = ScriptedPolicy([HERE])
    bench = connected(policy)
    bench.feed(0)
    assert not policy.told
    bench.work_off()
    assert policy.last().device_s == pytest.approx(0.1)
    assert policy.last().answered


@pytest.mark.parametrize("fault", [ErrorCode.INTERNAL, ErrorCode.UNKNOWN_CUT])
def test_of_a_failure_it_is_told_that_it_is_one(fault: ErrorCode) -> None:
    policy = ScriptedPolicy()
    bench = connected(policy)
    bench.feed(0)
    bench.fail(fault)
    assert not policy.last().answered
    assert policy.last().fault is (fault is ErrorCode.INTERNAL), "else all of the edge is lost"
    bench.work_off()
    assert len(policy.told) == 1, "the whole model that ran instead is no decision of its"


def test_of_a_frame_that_is_given_up_it_is_told_at_once() -> None:
    policy = ScriptedPolicy()
    bench = connected(policy)
    bench.feed(0, deadline_s=0.5)
    bench.pass_time(0.5)
    bench.runner.on_time()
    was = policy.last()
    assert (was.answered, was.fault) == (False, False)
    assert was.total_s == pytest.approx(0.51)


def test_of_a_head_that_fails_it_is_told() -> None:
    policy = ScriptedPolicy()
    bench = connected(policy)
    bench.head.encode_error = ResourceError("no memory")
    bench.feed(0)
    assert policy.last().fault
    assert policy.last().device_s == 0


def test_a_way_that_the_edge_offers_instead_is_taken_once() -> None:
    policy = ScriptedPolicy()
    bench = connected(policy)
    bench.feed(0)
    bench.refuse(retry_after_s=0.1, instead=Alternative(cut="late", codec="q8"))
    assert [one.request.cut for one in bench.arrived] == ["late"]
    bench.respond()
    record = bench.finished[0].record
    assert (record.outcome, record.cut, record.codec) == (Outcome.EDGE, "late", "q8")
    assert record.decision is not None
    assert record.decision.reason is Reason.ADVISED
    first, second = policy.told
    assert (first[0].placement, first[1].answered) == (WAY, False)
    assert (second[0].placement, second[1].answered) == (Split(cut="late", codec="q8"), True)
    bench.pass_time(0.2)
    bench.feed(1)
    for _ in range(2):
        bench.refuse(retry_after_s=0.1, instead=Alternative(cut="late", codec="q8"))
    bench.work_off()
    assert bench.outcomes == [Outcome.EDGE, Outcome.DEGRADED]


def test_a_way_that_this_device_does_not_have_is_not_taken() -> None:
    bench = connected(ScriptedPolicy())
    bench.feed(0)
    bench.head.encode_error = UnknownCutError("no such cut")
    bench.refuse(retry_after_s=0.1, instead=Alternative(cut="nosuch", codec="q8"))
    bench.work_off()
    assert bench.outcomes == [Outcome.DEGRADED]


def test_an_edge_that_offers_nothing_through_it_is_done_without() -> None:
    bench = connected(ScriptedPolicy())
    bench.feed(0)
    bench.refuse(retry_after_s=0.1, instead=Alternative())
    bench.work_off()
    assert bench.outcomes == [Outcome.DEGRADED]


def test_out_of_contact_what_would_have_been_sent_is_spooled_and_what_is_local_is_not() -> None:
    policy = ScriptedPolicy([WAY, HERE])
    bench = Bench(policy=policy, patience_s=0.0, spool=spooling(MemoryDisk()))
    bench.feed(0)
    bench.feed(1)
    bench.work_off()
    assert bench.outcomes == [Outcome.SPOOLED, Outcome.LOCAL]
    missed, here = policy.told
    assert not missed[1].answered
    assert missed[1].device_s == 0, "its head says nothing of how long the whole model takes"
    assert here[1].answered


def test_a_busy_edge_is_no_reason_to_spool() -> None:
    bench = Bench(spool=spooling(MemoryDisk()))
    bench.pump()
    bench.feed(0)
    bench.refuse(retry_after_s=3.0)
    bench.feed(1)
    bench.work_off()
    assert bench.outcomes == [Outcome.DEGRADED, Outcome.DEGRADED]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.sampled_from(ACTIONS), max_size=60),
    st.sampled_from(get_args(Late)),
    st.booleans(),
    st.booleans(),
    st.lists(st.sampled_from([WAY, HERE]), min_size=1, max_size=5),
)
def test_everything_that_was_decided_comes_back_once(
    actions: list[str],
    late: Late,
    spool: bool,
    hedge: bool,
    placements: list[Local | Split],
) -> None:
    policy = ScriptedPolicy(placements)
    bench = Bench(
        late=late,
        window=3,
        policy=policy,
        hedge=hedge,
        spool=spooling(MemoryDisk()) if spool else None,
    )
    bench.pump()
    index = 0
    for action in actions:
        index += act(bench, action, index)
        bench.pump()
        bench.runner.on_time()
    bench.close_books()
    assert bench.runner.idle or spool
    assert [finished.record.index for finished in bench.finished if not finished.record.late] == (
        list(range(index))
    )
    mine = [decision for decision, _ in policy.told if decision.reason is not Reason.ADVISED]
    assert len(mine) == len(policy.decided)
    assert {id(decision) for decision in mine} == {id(decision) for decision in policy.decided}
    assert bench.head.digest == DIGEST
