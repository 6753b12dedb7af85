"""Batches of jobs at several cuts through real stages: each gets the answer it gets alone."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

import tiny_darknet
from edge_doubles import Rig, ScriptedStage, crossing, encoded, events, job, send
from headtail_edge.job import Job
from headtail_edge.mixing import Hop
from headtail_edge.plan import PlanKey, SegmentKey, TailPlan, meeting, plans_of
from headtail_edge.stage_memory import LazyStage, StageMemory
from headtail_edge.tail_runner import Answer, Failure, Ran, TailRunner
from headtail_fabric.clock import FakeClock
from headtail_fabric.codec.base import Array
from headtail_fabric.peer.events import Answered
from headtail_fabric.wire import ErrorCode
from headtail_models.bundle import Bundle, open_bundle


def nothing(tensor: Array) -> bool:
    return False


def plans(bundle: Bundle) -> dict[str, TailPlan]:
    return {plan.key.cut: plan for plan in plans_of(bundle, threads=1)}


def crossed(bundle: Bundle, plan: TailPlan, id: int, codec: str = "raw") -> Job:
    cut = plan.key.cut
    return job(plan, *encoded(bundle, cut, crossing(bundle, cut, seed=id), codec), id=id)


def run(batch: Sequence[Job]) -> Ran:
    return TailRunner(clock=FakeClock()).run(batch)


def answers(ran: Ran) -> dict[int, list[Array]]:
    return {
        outcome.job.id: [np.frombuffer(payload, np.float32) for payload in outcome.payloads]
        for outcome in ran.outcomes
        if isinstance(outcome, Answer)
    }


def assert_answered_as_alone(ran: Ran, batch: Sequence[Job]) -> None:
    found = answers(ran)
    assert sorted(found) == sorted(job.id for job in batch)
    for one in batch:
        (expected,) = answers(run([one])).values()
        for got, wanted in zip(found[one.id], expected, strict=True):
            np.testing.assert_allclose(got, wanted, atol=1e-4)


class Watched:
    """Both plans of the specimen, whose stages note the sizes of their batches."""

    def __init__(
        self,
        bundle: Bundle,
        *,
        segment_fails: Callable[[Array], bool] = nothing,
        rest_fails: Callable[[Array], bool] = nothing,
    ) -> None:
        known = plans(bundle)
        onward = known["early"].onward
        assert onward is not None
        cut = bundle.cut("early")
        assert cut.segment is not None
        self.rest = ScriptedStage(bundle.open_stage(bundle.tail("late")), rest_fails)
        self.segment = ScriptedStage(bundle.open_stage(cut.segment.stage), segment_fails)
        self.own = ScriptedStage(bundle.open_stage(bundle.tail("early")), nothing)
        self.late = replace(known["late"], stage=LazyStage(lambda: self.rest))
        self.early = replace(
            known["early"],
            stage=LazyStage(lambda: self.own),
            onward=replace(onward, stage=LazyStage(lambda: self.segment), plan=self.late),
        )


def test_what_lies_behind_the_later_cut_runs_once_for_all(specimen: Bundle) -> None:
    watched = Watched(specimen)
    batch = [
        crossed(specimen, watched.late, 0),
        crossed(specimen, watched.early, 1, "q8+zstd"),
        crossed(specimen, watched.early, 2),
        crossed(specimen, watched.late, 3, "q4"),
    ]
    ran = run(batch)
    assert (watched.segment.batches, watched.rest.batches, watched.own.batches) == ([2], [4], [])
    early, late = watched.early.key, watched.late.key
    assert [(took.key, took.jobs) for took in ran.spent.runs] == [
        (SegmentKey(early, "late"), 2),
        (late, 4),
    ]
    assert ran.spent.mixed == 4
    assert {(key, codec) for key, codec, _ in ran.spent.decoding} == {
        (late, "raw"),
        (late, "q4"),
        (early, "q8+zstd"),
        (early, "raw"),
    }
    assert_answered_as_alone(ran, batch)


def test_a_bad_payload_costs_its_sender_alone(specimen: Bundle) -> None:
    watched = Watched(specimen)
    batch = [
        crossed(specimen, watched.late, 0),
        *(crossed(specimen, watched.early, i) for i in (1, 2)),
    ]
    batch[1] = structs.replace(batch[1], payload=b"nonsense")
    ran = run(batch)
    (failure,) = [outcome for outcome in ran.outcomes if isinstance(outcome, Failure)]
    assert (failure.job.id, failure.code) == (1, ErrorCode.BAD_PAYLOAD)
    assert watched.rest.batches == [2]
    assert answers(ran).keys() == {0, 2}


def test_when_only_one_cut_has_good_payloads_its_own_tail_runs(specimen: Bundle) -> None:
    watched = Watched(specimen)
    bad = structs.replace(crossed(specimen, watched.late, 0), payload=b"nonsense")
    assert answers(run([bad, crossed(specimen, watched.early, 1)])).keys() == {1}
    assert (watched.own.batches, watched.segment.batches, watched.rest.batches) == ([1], [], [])


def test_a_segment_that_fails_leaves_every_job_its_own_tail(
    specimen: Bundle, caplog: pytest.LogCaptureFixture
) -> None:
    watched = Watched(specimen, segment_fails=lambda tensor: True)
    batch = [
        crossed(specimen, watched.late, 0),
        *(crossed(specimen, watched.early, i) for i in (1, 2)),
    ]
    with caplog.at_level(logging.CRITICAL):
        ran = run(batch)
    assert (watched.own.batches, watched.rest.batches) == ([2], [1])
    assert [took.key for took in ran.spent.runs] == [watched.late.key, watched.early.key]
    assert ran.spent.mixed == 0
    assert_answered_as_alone(ran, batch)


def test_a_segment_that_can_not_be_opened_leaves_every_job_its_own_tail(
    specimen: Bundle, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> ScriptedStage:
        raise RuntimeError("no memory")

    watched = Watched(specimen)
    assert watched.early.onward is not None
    early = replace(watched.early, onward=replace(watched.early.onward, stage=LazyStage(broken)))
    with caplog.at_level(logging.CRITICAL):
        ran = run([crossed(specimen, watched.late, 0), crossed(specimen, early, 1)])
    assert answers(ran).keys() == {0, 1}


def test_what_one_job_brings_about_in_the_shared_rest_costs_it_alone(
    specimen: Bundle, caplog: pytest.LogCaptureFixture
) -> None:
    poison = crossing(specimen, "late", seed=0)
    watched = Watched(specimen, rest_fails=lambda tensor: bool((tensor == poison[0]).any()))
    batch = [crossed(specimen, watched.late, i) for i in (0, 3)] + [
        crossed(specimen, watched.early, 1)
    ]
    with caplog.at_level(logging.CRITICAL):
        ran = run(batch)
    (failure,) = [outcome for outcome in ran.outcomes if isinstance(outcome, Failure)]
    assert (failure.job.id, failure.code) == (0, ErrorCode.INTERNAL)
    assert answers(ran).keys() == {1, 3}


def test_timings_add_up_to_the_time_at_the_edge(specimen: Bundle) -> None:
    clock = FakeClock(1.0)

    def slow(tensor: Array) -> bool:
        clock.advance(0.01 * tensor.shape[0])
        return False

    watched = Watched(specimen, segment_fails=slow, rest_fails=slow)
    batch = [
        crossed(specimen, watched.late, 0),
        *(crossed(specimen, watched.early, i) for i in (1, 2)),
    ]
    ran = TailRunner(clock=clock).run(batch)
    for outcome in ran.outcomes:
        assert isinstance(outcome, Answer)
        timings = outcome.timings
        assert (timings.queue_us, timings.compute_us) == (1_000_000, 50_000)
    assert [round(took.seconds, 6) for took in ran.spent.runs] == [0.02, 0.03]


def test_jobs_whose_ways_never_meet_are_computed_one_cut_after_the_other(gated: Bundle) -> None:
    known = plans(gated)
    batch = [crossed(gated, known["code"], 0), crossed(gated, known["late"], 1)]
    ran = run(batch)
    assert [took.until for took in ran.spent.runs] == [None, None]
    assert_answered_as_alone(ran, batch)


@pytest.fixture(scope="module")
def detector(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """A detector with segments from each of its cuts, L0 to L4, to the next one."""
    return open_bundle(tiny_darknet.build(tmp_path_factory.mktemp("tiny")))


@pytest.mark.parametrize("cuts", [("L1", "L4"), ("L3", "L0", "L2"), ("L4", "L3", "L2", "L1", "L0")])
def test_a_chain_of_segments_takes_up_who_comes_in_on_the_way(
    detector: Bundle, cuts: tuple[str, ...]
) -> None:
    known = plans(detector)
    batch = [
        crossed(detector, known[cut], 10 * number + again)
        for again in range(2)
        for number, cut in enumerate(cuts)
    ]
    ran = run(batch)
    first, last = min(cuts), max(cuts)
    passed = [f"L{layer}" for layer in range(int(first[1]), int(last[1]))]
    *segments, rest = ran.spent.runs
    assert [took.plan.cut for took in segments] == passed
    # Each takes along all that came in before it.
    assert [took.jobs for took in segments] == [
        2 * sum(cut <= began for cut in cuts) for began in passed
    ]
    assert (rest.key, rest.jobs) == (known[last].key, len(batch))
    assert_answered_as_alone(ran, batch)


def test_plans_know_the_way_from_cut_to_cut(detector: Bundle) -> None:
    known = plans(detector)
    way = list(known["L1"].path())
    assert [(onward.key.start.cut, onward.key.until) for onward in way] == [
        ("L1", "L2"),
        ("L2", "L3"),
        ("L3", "L4"),
    ]
    assert known["L1"].hops == tuple(
        Hop(onward.key, onward.gmacs, onward.plan.key, onward.plan.gmacs) for onward in way
    )
    for onward in way:
        start = known[onward.key.start.cut]
        assert onward.gmacs + onward.plan.gmacs == pytest.approx(start.gmacs)
    assert meeting([known["L3"], known["L0"]]) is known["L3"]
    assert meeting([known["L2"]]) is known["L2"]
    assert meeting([known["L2"], known["input"]]) is None


def test_a_bundle_without_segments_shares_nothing(gated: Bundle) -> None:
    known = plans(gated)
    assert known["code"].hops == ()
    assert meeting([known["code"], known["late"]]) is None


def test_a_plan_that_is_not_served_any_more_keeps_no_segment_open(specimen: Bundle) -> None:
    memory = StageMemory()
    (early,) = [plan for plan in plans_of(specimen, threads=1, memory=memory) if plan.onward]
    assert early.onward is not None
    early.stage.get()
    early.onward.stage.get()
    early.forget()
    assert (memory.used_bytes, early.onward.stage.is_open) == (0, False)


def test_devices_at_two_cuts_share_one_batch_and_it_is_counted(
    specimen: Bundle, specimen_path: Path, tmp_path: Path
) -> None:
    rig = Rig(tmp_path, specimen_path, mixed_cuts="always")
    one, other = rig.device(), rig.device(seed=9)
    asked = {
        (device, send(device, specimen, cut, seed=seed)): (cut, seed)
        for seed, (device, cut) in enumerate(((one, "early"), (other, "late"), (one, "early")))
    }
    rig.step()
    for device in (one, other):
        for event in events(device):
            assert isinstance(event, Answered)
            cut, seed = asked.pop((device, event.id))
            stage = specimen.open_stage(specimen.tail(cut))
            alone = stage.run({cut: crossing(specimen, cut, seed=seed)})["logits"][0]
            got = np.frombuffer(event.payloads[0], np.float32)
            np.testing.assert_allclose(got, alone, atol=1e-4)
            assert event.hints.batch == 3
    assert not asked
    assert rig.counted.totals["edge_mixed_requests"] == {(): 3}
    late = PlanKey(specimen.digest, "late")
    known = [late, SegmentKey(PlanKey(specimen.digest, "early"), "late")]
    assert all(rig.costs.age_s(key, rig.clock.now()) == 0.0 for key in known)
    rig.registry.unload(specimen.digest)
    assert all(rig.costs.age_s(key, rig.clock.now()) == float("inf") for key in known)
