"""Batches of real payloads through a real tail."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from edge_doubles import ScriptedStage, crossing, encoded, job
from headtail_edge.job import Job
from headtail_edge.plan import TailPlan, plans_of
from headtail_edge.stage_memory import LazyStage
from headtail_edge.tail_runner import Answer, Failure, TailRunner
from headtail_fabric.clock import FakeClock
from headtail_fabric.codec import TensorCodec, codec_for
from headtail_fabric.codec.base import Array
from headtail_fabric.wire import DType, ErrorCode, TensorInfo
from headtail_models.bundle import Bundle
from headtail_models.bundle.codecs import TensorCodecs
from headtail_models.task import Task, task_for


def plan_at(bundle: Bundle, cut: str) -> TailPlan:
    return next(plan for plan in plans_of(bundle, threads=1) if plan.key.cut == cut)


def jobs(bundle: Bundle, plan: TailPlan, count: int, codec: str = "raw") -> list[Job]:
    made = []
    for number in range(count):
        tensor = crossing(bundle, plan.key.cut, seed=number)
        made.append(job(plan, *encoded(bundle, plan.key.cut, tensor, codec), id=number))
    return made


def run(batch: Sequence[Job]) -> list[Answer | Failure]:
    return TailRunner(clock=FakeClock()).run(batch).outcomes


def logits(outcome: Answer | Failure) -> Array:
    assert isinstance(outcome, Answer), outcome
    (info,), (payload,) = outcome.tensors, outcome.payloads
    assert (info.name, info.dtype, info.codec) == ("logits", DType.FLOAT32, "raw")
    return codec_for(info.codec, dtype=info.dtype).decode(payload, info.shape)


def expected(bundle: Bundle, cut: str, seed: int) -> Array:
    outputs = bundle.open_stage(bundle.tail(cut)).run({cut: crossing(bundle, cut, seed=seed)})
    row: Array = outputs["logits"][0]
    return row


@pytest.mark.parametrize("count", [1, 3])
def test_each_job_of_a_batch_gets_its_own_answer(specimen: Bundle, count: int) -> None:
    plan = plan_at(specimen, "late")
    outcomes = run(jobs(specimen, plan, count))
    assert [outcome.job.id for outcome in outcomes] == list(range(count))
    for number, outcome in enumerate(outcomes):
        np.testing.assert_allclose(
            logits(outcome), expected(specimen, "late", number), rtol=1e-5, atol=1e-6
        )


def test_jobs_in_several_codecs_share_a_batch(specimen: Bundle) -> None:
    plan = plan_at(specimen, "late")
    stage = ScriptedStage(specimen.open_stage(specimen.tail("late")), lambda tensor: False)
    plan = replace(plan, stage=LazyStage(lambda: stage))
    batch = [jobs(specimen, plan, 1, codec)[0] for codec in ("raw", "raw+zstd", "q8", "q4+zstd")]
    outcomes = run(batch)
    assert all(isinstance(outcome, Answer) for outcome in outcomes)
    assert stage.batches == [4]


def test_a_single_raw_payload_reaches_the_stage_without_a_copy(specimen: Bundle) -> None:
    plan = plan_at(specimen, "late")
    seen: list[Array] = []

    def note(tensor: Array) -> bool:
        seen.append(tensor)
        return False

    stage = ScriptedStage(specimen.open_stage(specimen.tail("late")), note)
    (single,) = jobs(specimen, replace(plan, stage=LazyStage(lambda: stage)), 1)
    run([single])
    assert np.shares_memory(seen[0], np.frombuffer(single.payload, dtype=np.uint8))


def test_a_payload_that_is_out_of_step_with_its_type_is_still_computed(specimen: Bundle) -> None:
    plan = plan_at(specimen, "late")
    (single,) = jobs(specimen, plan, 1)
    shifted = memoryview(b"\0" + bytes(single.payload))[1:]
    (outcome,) = run([structs.replace(single, payload=shifted)])
    np.testing.assert_allclose(logits(outcome), expected(specimen, "late", 0), rtol=1e-5)


def test_a_whole_picture_is_prepared_here_and_runs_through_the_full_model(
    specimen: Bundle,
) -> None:
    picture = np.full((40, 30, 3), 90, dtype=np.uint8)
    cv2.circle(picture, (15, 20), 9, (20, 200, 90), -1)
    info = TensorInfo(name="input", dtype=DType.UINT8, shape=(1, 40, 30, 3), codec="webp")
    codec = codec_for("webp", dtype=DType.UINT8, quality=100)
    payload = codec.encode(picture[np.newaxis])
    (outcome,) = run([job(plan_at(specimen, "input"), info, payload)])
    seen = codec.decode(payload, info.shape)[0]
    network_input, _ = task_for(specimen.manifest).prepare(seen)
    reference = specimen.open_stage(specimen.full()).run({"picture": network_input})
    np.testing.assert_allclose(logits(outcome), reference["logits"][0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("codec", ["raw", "q8", "q8+zstd"])
def test_a_bad_payload_among_others_in_its_codec_fails_its_own_job_only(
    specimen: Bundle, codec: str
) -> None:
    runner = TailRunner(clock=FakeClock())
    batch = jobs(specimen, plan_at(specimen, "late"), 3, codec)
    as_it_should_be = runner.run(batch).outcomes
    again = runner.run(batch).outcomes
    for first, second in zip(as_it_should_be, again, strict=True):
        np.testing.assert_array_equal(logits(first), logits(second))
    batch[1] = structs.replace(batch[1], payload=bytes(batch[1].payload)[:-1])
    by_id = {outcome.job.id: outcome for outcome in runner.run(batch).outcomes}
    assert [type(by_id[job.id]) for job in batch] == [Answer, Failure, Answer]
    np.testing.assert_array_equal(logits(by_id[batch[2].id]), logits(again[2]))


def test_a_bad_payload_fails_its_own_job_only(specimen: Bundle) -> None:
    plan = plan_at(specimen, "late")
    good, short, damaged = [
        jobs(specimen, plan, 1, codec)[0] for codec in ("raw", "raw", "q8+zstd")
    ]
    outcomes = run(
        [
            structs.replace(short, id=1, payload=bytes(short.payload)[:-1]),
            structs.replace(good, id=2),
            structs.replace(damaged, id=3, payload=b"nonsense"),
        ]
    )
    by_id = {outcome.job.id: outcome for outcome in outcomes}
    assert isinstance(by_id[2], Answer)
    for number in (1, 3):
        failure = by_id[number]
        assert isinstance(failure, Failure)
        assert failure.code is ErrorCode.BAD_PAYLOAD


def test_a_batch_of_bad_payloads_never_reaches_the_stage(specimen: Bundle) -> None:
    plan = replace(plan_at(specimen, "late"), stage=LazyStage(lambda: pytest.fail("opened")))
    (bad,) = jobs(specimen, plan, 1)
    assert isinstance(run([structs.replace(bad, payload=b"")])[0], Failure)


def test_a_decoder_that_breaks_fails_its_own_job_only(
    specimen: Bundle, caplog: pytest.LogCaptureFixture
) -> None:
    plan = plan_at(specimen, "late")
    first, second = jobs(specimen, plan, 2)
    with caplog.at_level(logging.CRITICAL):
        outcomes = run([structs.replace(first, payload="no buffer"), second])
    assert isinstance(outcomes[0], Failure)
    assert outcomes[0].code is ErrorCode.INTERNAL
    assert isinstance(outcomes[1], Answer)


def scripted(
    bundle: Bundle, fails: Callable[[Array], bool], count: int
) -> tuple[ScriptedStage, list[Answer | Failure]]:
    stage = ScriptedStage(bundle.open_stage(bundle.tail("late")), fails)
    plan = replace(plan_at(bundle, "late"), stage=LazyStage(lambda: stage))
    return stage, run(jobs(bundle, plan, count))


def test_when_a_batch_fails_its_jobs_are_tried_alone(specimen: Bundle) -> None:
    stage, outcomes = scripted(specimen, lambda tensor: tensor.shape[0] > 1, 3)
    assert stage.batches == [3, 1, 1, 1]
    for number, outcome in enumerate(outcomes):
        np.testing.assert_allclose(logits(outcome), expected(specimen, "late", number), rtol=1e-5)


def test_one_job_that_breaks_the_stage_fails_alone(specimen: Bundle) -> None:
    poison = crossing(specimen, "late", seed=1)

    def contains_poison(tensor: Array) -> bool:
        return any(np.array_equal(row, poison[0]) for row in tensor)

    stage, outcomes = scripted(specimen, contains_poison, 3)
    assert stage.batches == [3, 1, 1, 1]
    assert [isinstance(outcome, Answer) for outcome in outcomes] == [True, False, True]
    assert isinstance(outcomes[1], Failure)
    assert (outcomes[1].code, outcomes[1].message) == (ErrorCode.INTERNAL, "the tail failed")


def test_a_single_job_is_tried_twice(specimen: Bundle) -> None:
    stage, outcomes = scripted(specimen, lambda tensor: True, 1)
    assert stage.batches == [1, 1]
    assert isinstance(outcomes[0], Failure)


def test_timings_are_the_phases_that_the_batch_went_through(specimen: Bundle) -> None:
    clock = FakeClock(1.0)
    plan = plan_at(specimen, "late")

    class SlowTask:
        def __getattr__(self, name: str) -> Any:
            return getattr(plan.task, name)

        def finish(self, outputs: Mapping[str, Array]) -> list[dict[str, Array]]:
            clock.advance(0.004)
            return plan.task.finish(outputs)

    def slow(tensor: Array) -> bool:
        clock.advance(0.02)
        return False

    stage = ScriptedStage(specimen.open_stage(specimen.tail("late")), slow)
    slow_plan = replace(plan, stage=LazyStage(lambda: stage), task=cast(Task, SlowTask()))
    ran = TailRunner(clock=clock).run(jobs(specimen, slow_plan, 2))
    for outcome in ran.outcomes:
        assert isinstance(outcome, Answer)
        timings = outcome.timings
        assert (timings.queue_us, timings.decode_us) == (1_000_000, 0)
        assert (timings.compute_us, timings.post_us) == (20_000, 4_000)
    (took,) = ran.spent.runs
    assert (took.key, took.jobs, took.gmacs) == (plan.key, 2, plan.gmacs)
    assert took.seconds == pytest.approx(0.024)
    assert ran.spent.decoding == [(plan.key, "raw", 0.0)] * 2


def test_opening_a_stage_is_waiting_for_it_and_no_part_of_what_a_batch_costs(
    specimen: Bundle,
) -> None:
    clock = FakeClock(1.0)

    def open_stage() -> ScriptedStage:
        clock.advance(3.0)
        return ScriptedStage(specimen.open_stage(specimen.tail("late")), lambda tensor: False)

    plan = replace(plan_at(specimen, "late"), stage=LazyStage(open_stage))
    ran = TailRunner(clock=clock).run(jobs(specimen, plan, 1))
    (outcome,) = ran.outcomes
    assert isinstance(outcome, Answer)
    assert (outcome.timings.queue_us, outcome.timings.compute_us) == (4_000_000, 0)
    assert [took.seconds for took in ran.spent.runs] == [0.0]


def test_a_stage_that_can_not_be_opened_fails_the_batch_and_no_more(
    specimen: Bundle, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> ScriptedStage:
        raise RuntimeError("no memory")

    plan = replace(plan_at(specimen, "late"), stage=LazyStage(broken))
    with caplog.at_level(logging.CRITICAL):
        outcomes = run(jobs(specimen, plan, 2))
    assert [o.message for o in outcomes if isinstance(o, Failure)] == [
        "the tail can't be loaded"
    ] * 2


@pytest.mark.parametrize("codec", ["rans", "rans-coarse"])
def test_an_entropy_coded_job_is_answered_as_its_levels_would_be(gated: Bundle, codec: str) -> None:
    plan = plan_at(gated, "code")
    (coded,) = jobs(gated, plan, 1, codec)
    seen = gated.codecs("code").new(codec).decode(coded.payload, coded.tensor.shape)
    (outcome,) = run([coded])
    reference = gated.open_stage(gated.tail("code")).run({"code": seen})["logits"][0]
    np.testing.assert_allclose(logits(outcome), reference, rtol=1e-5, atol=1e-6)


def test_a_codec_is_built_once_for_all_jobs(gated: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[str] = []
    real = TensorCodecs.new

    def noted(codecs: TensorCodecs, codec_id: str) -> TensorCodec:
        built.append(codec_id)
        return real(codecs, codec_id)

    plan = plan_at(gated, "code")
    batch = jobs(gated, plan, 3, "rans") + jobs(gated, plan, 2, "raw")
    monkeypatch.setattr(TensorCodecs, "new", noted)
    runner = TailRunner(clock=FakeClock())
    for _ in range(2):
        assert all(isinstance(outcome, Answer) for outcome in runner.run(batch).outcomes)
    assert built == ["rans", "raw"]


@settings(max_examples=60)
@given(payload=st.binary(max_size=400), codec=st.sampled_from(("rans", "rans-coarse")))
def test_no_entropy_coded_payload_costs_anybody_else_anything(
    gated: Bundle, payload: bytes, codec: str
) -> None:
    plan = plan_at(gated, "code")
    (good,) = jobs(gated, plan, 1, "rans")
    (other,) = jobs(gated, plan, 1, codec)
    by_id = {o.job.id: o for o in run([structs.replace(other, id=7, payload=payload), good])}
    assert isinstance(by_id[0], Answer)
    if isinstance(by_id[7], Failure):
        assert by_id[7].code is ErrorCode.BAD_PAYLOAD


def test_a_payload_that_would_inflate_is_refused(gated: Bundle) -> None:
    plan = plan_at(gated, "code")
    (coded,) = jobs(gated, plan, 1, "rans")
    (outcome,) = run([structs.replace(coded, payload=bytes(1_000_000))])
    assert isinstance(outcome, Failure)
    assert (outcome.code, "1000000 bytes" in outcome.message) == (ErrorCode.BAD_PAYLOAD, True)


@settings(max_examples=80)
@given(
    payload=st.binary(max_size=4000), codec=st.sampled_from(("raw", "raw+zstd", "q8", "q4+zstd"))
)
def test_no_payload_breaks_the_runner(specimen: Bundle, payload: bytes, codec: str) -> None:
    plan = plan_at(specimen, "late")
    (good,) = jobs(specimen, plan, 1)
    (other,) = jobs(specimen, plan, 1, codec)
    outcomes = run([structs.replace(other, id=7, payload=payload), good])
    assert sorted(outcome.job.id for outcome in outcomes) == [0, 7]
    assert any(isinstance(outcome, Answer) and outcome.job.id == 0 for outcome in outcomes)
