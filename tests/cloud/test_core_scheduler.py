import pytest

from cloud_doubles import SEGMENT, Desk, said, tail, text
from headtail_cloud.core.actions import Accept, EmitToken, Finish, Outcome, StartStep
from headtail_cloud.core.cost_model import CostModel
from headtail_cloud.core.engine import Capacity
from headtail_cloud.core.events import (
    RequestArrived,
    RequestCancelled,
    StepFailed,
    StepFinished,
    TimePassed,
)
from headtail_cloud.core.exit_policy import AgreeingExit, ConfidentExit, Evidence
from headtail_cloud.core.request import Segment
from headtail_cloud.core.scheduler import Scheduler
from headtail_cloud.core.task import TailOutput, TaskFailed, TextOutput
from headtail_cloud.engines.modelled import ModelledEngine, Prices

LIMITS = Capacity(max_batch=4, blocks=32, block_tokens=4)


def scheduler() -> Scheduler:
    return Scheduler(LIMITS, CostModel(Prices().of))


def test_a_tail_from_its_arrival_to_its_end() -> None:
    core = scheduler()
    accept, start = core.on_event(RequestArrived(request=tail(1)), 0.0)
    assert isinstance(accept, Accept)
    assert isinstance(start, StartStep)
    assert repr(core).startswith("<Scheduler open, 1 here, step 1 of 1")
    assert not core.idle
    result = TailOutput(request_id="tail-1", output="boxes")
    done = StepFinished(step_id=start.step.id, results=[result], took_s=0.01)
    (finish,) = core.on_event(done, 0.01)
    assert isinstance(finish, Finish)
    assert (finish.outcome, finish.output, finish.ran) == (Outcome.DONE, "boxes", 1)
    assert (finish.timeline.started_at, finish.timeline.ended_at) == (0.0, 0.01)
    assert core.idle
    assert len(core) == 0


def test_an_answer_in_the_last_moment_is_late_and_still_an_answer() -> None:
    core = scheduler()
    core.on_event(RequestArrived(request=tail(1, deadline_s=0.05)), 0.0)
    (finish,) = core.on_event(_done(1, TailOutput(request_id="tail-1", output=1)), 0.06)
    assert isinstance(finish, Finish)
    assert (finish.outcome, finish.on_time) == (Outcome.DONE, False)


def test_a_text_that_kept_a_token_waiting_was_not_on_time() -> None:
    for gap_s, on_time in ((0.04, True), (0.06, False)):
        core = scheduler()
        request = text(0, [1], max_tokens=2, ttft_s=0.1, tbt_s=0.05)
        core.on_event(RequestArrived(request=request), 0.0)
        first, _ = core.on_event(_done(1, TextOutput(request_id="text-0", token=1)), 0.01)
        second, finish = core.on_event(
            _done(2, TextOutput(request_id="text-0", token=2)), 0.01 + gap_s
        )
        assert isinstance(first, EmitToken)
        assert isinstance(second, EmitToken)
        assert isinstance(finish, Finish)
        assert first.after_s is None
        assert second.after_s == pytest.approx(gap_s)
        assert finish.on_time is on_time


def test_one_iteration_at_a_time() -> None:
    core = scheduler()
    core.on_event(RequestArrived(request=tail(1)), 0.0)
    actions = core.on_event(RequestArrived(request=tail(2)), 0.001)
    assert [type(action) for action in actions] == [Accept]


def test_the_same_id_twice_is_the_callers_bug() -> None:
    core = scheduler()
    core.on_event(RequestArrived(request=tail(1)), 0.0)
    with pytest.raises(ValueError, match="here already"):
        core.on_event(RequestArrived(request=tail(1)), 0.0)


def test_a_step_that_does_not_run_is_the_callers_bug() -> None:
    with pytest.raises(ValueError, match="does not run"):
        scheduler().on_event(StepFinished(step_id=1, results=[], took_s=0.0), 0.0)


def test_a_text_says_what_it_should() -> None:
    desk = Desk()
    desk.arrive(0.0, text(0, range(9), max_tokens=5))
    desk.run()
    assert desk.tokens["text-0"] == said(range(9), 5)
    finish = desk.finished["text-0"]
    assert (finish.outcome, finish.ran) == (Outcome.DONE, 5)
    assert finish.timeline.first_token_at == desk.token_times["text-0"][0]


def test_a_stop_token_ends_a_text() -> None:
    words = said(range(9), 5)
    desk = Desk()
    desk.arrive(0.0, text(0, range(9), max_tokens=5, stop_tokens=frozenset({words[2]})))
    desk.run()
    assert desk.tokens["text-0"] == words[: words.index(words[2]) + 1]


def test_a_tail_that_waits_too_long_expires() -> None:
    core = scheduler()
    core.on_event(RequestArrived(request=tail(1)), 0.0)
    core.on_event(RequestArrived(request=tail(2, deadline_s=0.03)), 0.0)
    assert core.next_timer() == 0.03
    (finish,) = core.on_event(TimePassed(), 0.03)
    assert isinstance(finish, Finish)
    assert (finish.request_id, finish.outcome) == ("tail-2", Outcome.EXPIRED)
    assert finish.timeline.started_at is None
    assert core.next_timer() is None


def test_a_text_ends_at_its_deadline_with_what_it_has_said() -> None:
    desk = Desk(prices=Prices(decode_s=0.02))
    desk.engine.prices = Prices(decode_s=0.1)
    desk.arrive(0.0, text(0, [1], max_tokens=20, deadline_s=0.5))
    desk.run()
    finish = desk.finished["text-0"]
    assert finish.outcome is Outcome.EXPIRED
    assert 2 <= finish.ran < 20
    assert desk.scheduler.cache.pool.free == 64


def test_cancelling_what_waits() -> None:
    core = scheduler()
    core.on_event(RequestArrived(request=tail(1)), 0.0)
    core.on_event(RequestArrived(request=tail(2)), 0.0)
    (finish,) = core.on_event(RequestCancelled(request_id="tail-2"), 0.001)
    assert isinstance(finish, Finish)
    assert finish.outcome is Outcome.CANCELLED


def test_cancelling_what_runs_keeps_its_blocks_until_the_step_ends() -> None:
    core = scheduler()
    _, start = core.on_event(RequestArrived(request=text(1, range(8))), 0.0)
    assert isinstance(start, StartStep)
    (finish,) = core.on_event(RequestCancelled(request_id="text-1"), 0.001)
    assert isinstance(finish, Finish)
    assert finish.outcome is Outcome.CANCELLED
    assert core.cache.pool.free == 30
    assert not core.idle
    result = TextOutput(request_id="text-1", token=3)
    assert core.on_event(StepFinished(step_id=1, results=[result], took_s=0.01), 0.01) == []
    assert core.cache.pool.free == 32
    assert core.idle


def test_a_cancelled_id_may_be_used_again_while_its_step_runs() -> None:
    core = scheduler()
    core.on_event(RequestArrived(request=text(1, range(8))), 0.0)
    core.on_event(RequestCancelled(request_id="text-1"), 0.001)
    core.on_event(RequestArrived(request=text(1, [5])), 0.002)
    result = TextOutput(request_id="text-1", token=3)
    actions = core.on_event(StepFinished(step_id=1, results=[result], took_s=0.01), 0.01)
    assert [type(action) for action in actions] == [StartStep]


def test_cancelling_what_is_gone_does_nothing() -> None:
    assert scheduler().on_event(RequestCancelled(request_id="nobody"), 0.0) == []


def test_a_task_that_failed_fails_its_request_alone() -> None:
    core = scheduler()
    core.on_event(RequestArrived(request=tail(0)), 0.0)
    for number in (1, 2):
        core.on_event(RequestArrived(request=tail(number)), 0.0)
    core.on_event(_done(1, TailOutput(request_id="tail-0", output=0)), 0.01)
    bad = TaskFailed(request_id="tail-1", message="not finite")
    actions = core.on_event(_done(2, bad, TailOutput(request_id="tail-2", output=2)), 0.02)
    outcomes = {a.request_id: (a.outcome, a.message) for a in actions if isinstance(a, Finish)}
    assert outcomes == {
        "tail-1": (Outcome.FAILED, "not finite"),
        "tail-2": (Outcome.DONE, ""),
    }


def test_a_result_that_is_missing_is_a_failure() -> None:
    core = scheduler()
    core.on_event(RequestArrived(request=tail(0)), 0.0)
    (finish,) = core.on_event(_done(1), 0.01)
    assert isinstance(finish, Finish)
    assert finish.message == "the engine gave no result"


def test_a_last_chunk_without_a_token_is_a_failure() -> None:
    core = scheduler()
    core.on_event(RequestArrived(request=text(0, [1, 2])), 0.0)
    (finish,) = core.on_event(_done(1, TextOutput(request_id="text-0")), 0.01)
    assert isinstance(finish, Finish)
    assert finish.message == "the engine gave no token"
    assert core.cache.pool.free == 32


def test_one_that_breaks_the_engine_takes_no_other_along() -> None:
    engine = ModelledEngine(limits=LIMITS, breaks={"tail-2"})
    desk = Desk(engine=engine)
    desk.arrive(0.0, *(tail(n, deadline_s=1.0) for n in range(5)), text(9, [1, 2]))
    desk.run()
    outcomes = {name: finish.outcome for name, finish in desk.finished.items()}
    assert outcomes.pop("tail-2") is Outcome.FAILED
    assert set(outcomes.values()) == {Outcome.DONE}
    assert len(outcomes) == 5
    assert desk.finished["tail-2"].message == "tail-2 broke the engine"
    assert desk.tokens["text-9"] == said([1, 2], 4)


def test_an_engine_that_lost_its_state_begins_anew() -> None:
    core = scheduler()
    core.on_event(RequestArrived(request=text(0, range(8))), 0.0)
    core.on_event(_done(1, TextOutput(request_id="text-0", token=7)), 0.01)
    core.on_event(RequestArrived(request=text(1, range(8))), 0.01)
    core.on_event(_done(2, TextOutput(request_id="text-0", token=8)), 0.02)
    actions = core.on_event(StepFailed(step_id=3, message="died", state_lost=True), 0.03)
    (start,) = (action for action in actions if isinstance(action, StartStep))
    (task,) = start.step.tasks
    assert (task.request_id, task.work.prefill_tokens) == ("text-0", 10)


def test_a_step_that_failed_twice_fails() -> None:
    core = scheduler()
    core.on_event(RequestArrived(request=tail(0)), 0.0)
    (finish,) = core.on_event(StepFailed(step_id=1, message="died"), 0.01)
    assert isinstance(finish, Finish)
    assert (finish.outcome, finish.message) == (Outcome.FAILED, "died")


def test_a_cancelled_job_of_a_failed_step_gives_its_blocks_back() -> None:
    core = scheduler()
    core.on_event(RequestArrived(request=text(0, range(8))), 0.0)
    core.on_event(RequestCancelled(request_id="text-0"), 0.0)
    assert core.on_event(StepFailed(step_id=1, message="died"), 0.01) == []
    assert core.cache.pool.free == 32


def test_a_sure_branch_ends_a_tail_and_the_others_go_on_together() -> None:
    chain = (SEGMENT, Segment("yolo@1.0", "rest"))
    engine = ModelledEngine(
        limits=LIMITS, confidence=lambda item: 0.9 if item.request_id == "tail-1" else 0.1
    )
    desk = Desk(engine=engine)
    desk.arrive(
        0.0,
        tail(9),
        *(tail(n, chain=chain, exit_policy=lambda: ConfidentExit(0.5)) for n in range(3)),
    )
    desk.run()
    finish = desk.finished["tail-1"]
    assert (finish.outcome, finish.ran, finish.output) == (
        Outcome.EXITED,
        1,
        ("tail-1", str(SEGMENT)),
    )
    assert [task.request_id for task in desk.steps[-1].tasks] == ["tail-0", "tail-2"]


def test_probes_that_agree_end_a_text() -> None:
    core = scheduler()
    core.on_event(
        RequestArrived(request=text(0, [1], max_tokens=9, exit_policy=lambda: AgreeingExit(2))), 0.0
    )
    outcome = None
    for number, answer in enumerate(["7", "8", None, "8", "8"], start=1):
        evidence = Evidence(confidence=1.0, answer=answer)
        result = TextOutput(request_id="text-0", token=number, evidence=evidence)
        actions = core.on_event(_done(number, result), 0.01 * number)
        assert any(isinstance(action, EmitToken) for action in actions)
        outcome = next((a.outcome for a in actions if isinstance(a, Finish)), None)
    assert outcome is Outcome.EXITED
    assert core.idle


def _done(step_id: int, *results: TailOutput | TextOutput | TaskFailed) -> StepFinished:
    return StepFinished(step_id=step_id, results=results, took_s=0.01)
