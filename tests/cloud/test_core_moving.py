"""A scheduler whose engine stops, is lost, or is gone for good, and whose jobs leave and come."""

import pytest

from cloud_doubles import Desk, said, tail, text
from headtail_cloud.core.actions import Finish, Outcome, Reason, StartStep
from headtail_cloud.core.events import (
    EngineGone,
    EngineStarted,
    EngineStopped,
    RequestArrived,
    StepFailed,
    StepFinished,
)
from headtail_cloud.dispatch.member import Member, Standing, StandingError, Turn
from headtail_cloud.dispatch.placement import by_total
from headtail_cloud.migration.policy import Role


def test_what_comes_while_the_engine_is_stopped_waits_for_it() -> None:
    desk = Desk()
    desk.at(0.0, EngineStopped(ready_at=0.03))
    desk.arrive(0.01, tail(1, deadline_s=0.05))
    desk.at(0.03, EngineStarted())
    desk.run()
    assert desk.started_at == [0.03]
    assert desk.finished["tail-1"].on_time


def test_what_can_not_wait_so_long_is_told_when_to_come_again() -> None:
    desk = Desk()
    desk.at(0.0, EngineStopped(ready_at=2.0))
    desk.arrive(0.5, tail(1, deadline_s=0.05))
    desk.run()
    refused = desk.rejected["tail-1"]
    assert refused.reason is Reason.COLD_START
    assert refused.retry_after_s == pytest.approx(1.5)


def test_what_waited_for_it_in_vain_expires() -> None:
    desk = Desk()
    desk.at(0.0, EngineStopped(ready_at=0.01))
    desk.arrive(0.0, tail(1, deadline_s=0.05))
    desk.run()
    assert desk.finished["tail-1"].outcome is Outcome.EXPIRED


def test_a_text_is_computed_again_after_its_entries_were_lost() -> None:
    desk = Desk()
    desk.arrive(0.0, text(1, range(20), max_tokens=10))
    desk.run(until=0.02)
    assert 0 < len(desk.tokens["text-1"]) < 10
    (running,) = [step for step in desk.steps if step is desk.steps[-1]]
    desk._plan.clear()
    lost = StepFailed(step_id=running.id, message="lost", state_lost=True)
    desk.engine._memory.clear()
    desk.at(0.03, EngineStopped(ready_at=0.1), lost)
    desk.at(0.1, EngineStarted())
    desk.run()
    assert desk.finished["text-1"].outcome is Outcome.DONE
    assert desk.tokens["text-1"] == said(range(20), 10)


def test_one_that_ran_alone_when_the_engine_was_lost_is_tried_once_more() -> None:
    desk = Desk()
    for number in range(2):
        actions = desk.scheduler.on_event(RequestArrived(request=tail(1, deadline_s=9)), 0.0)
        for attempt in (1, 2):
            lost = StepFailed(step_id=2 * number + attempt, message="lost", state_lost=True)
            actions = desk.scheduler.on_event(lost, 0.0)
        (ended,) = [action for action in actions if isinstance(action, Finish)]
        assert (ended.outcome, ended.message) == (Outcome.FAILED, "lost")


def test_what_an_engine_never_began_with_is_not_to_blame() -> None:
    """However often that happens, it is tried again, and with others."""
    desk = Desk()
    desk.scheduler.on_event(RequestArrived(request=tail(1, deadline_s=9)), 0.0)
    desk.scheduler.on_event(RequestArrived(request=tail(2, deadline_s=9)), 0.0)
    for step in (1, 2, 3):
        failed = StepFailed(step_id=step, message="lost", state_lost=True, begun=False)
        (started,) = desk.scheduler.on_event(failed, 0.0)
        assert isinstance(started, StartStep)
        assert len(started.step.tasks) == 2


def test_an_engine_that_is_gone_fails_all_that_is_here_and_takes_nothing_more() -> None:
    desk = Desk()
    desk.at(0.0, EngineStopped(ready_at=1.0))
    desk.arrive(0.0, tail(1, deadline_s=9), text(1, range(9)))
    desk.at(0.5, EngineGone(message="no memory"))
    desk.arrive(0.6, tail(2, deadline_s=9))
    desk.run()
    assert {end.outcome for end in desk.finished.values()} == {Outcome.FAILED}
    assert len(desk.finished) == 2
    assert desk.rejected["tail-2"].reason is Reason.DRAINING
    assert desk.scheduler.idle


def test_a_job_leaves_one_scheduler_and_goes_on_in_another() -> None:
    here, there = Desk(), Desk()
    here.arrive(0.0, text(1, range(20), max_tokens=10))
    here.run(until=0.02)
    with pytest.raises(ValueError, match="can't leave"):
        here.scheduler.release("text-1")
    with pytest.raises(ValueError, match="can't leave"):
        here.scheduler.release("nobody")
    (job,) = here.scheduler.jobs
    job.held = True
    here.run(until=0.2)
    first = list(here.tokens["text-1"])
    assert not job.in_step
    assert here.scheduler.release("text-1") is job
    assert here.scheduler.idle
    assert here.scheduler.cache.pool.free == here.scheduler.cache.pool.total
    there.accepted["text-1"] = here.accepted["text-1"]
    there.now = 0.2
    for action in there.scheduler.adopt(job, 0.2):
        there._act(action)
    with pytest.raises(ValueError, match="here already"):
        there.scheduler.adopt(job, 0.2)
    there.run()
    assert first + there.tokens["text-1"] == said(range(20), 10)


def test_one_whose_deadline_has_passed_ends_where_it_comes_to() -> None:
    here, there = Desk(), Desk()
    here.scheduler.on_event(EngineStopped(ready_at=5.0), 0.0)
    here.scheduler.on_event(RequestArrived(request=tail(1, deadline_s=10.0)), 0.0)
    job = here.scheduler.release("tail-1")
    (ended,) = there.scheduler.adopt(job, 11.0)
    assert isinstance(ended, Finish)
    assert ended.outcome is Outcome.EXPIRED


def test_a_step_that_ends_late_is_of_no_use() -> None:
    desk = Desk()
    desk.scheduler.on_event(RequestArrived(request=tail(1, deadline_s=9)), 0.0)
    desk.scheduler.on_event(StepFailed(step_id=1, message="lost", state_lost=True), 0.0)
    with pytest.raises(ValueError, match="does not run"):
        desk.scheduler.on_event(StepFinished(step_id=1, results=[], took_s=0.1), 0.0)


def test_a_beginning_in_the_cache_counts_and_so_does_what_waits_there() -> None:
    """Placement weighs both in seconds."""
    home, idle = Desk(), Desk()
    prompt = list(range(40))
    home.arrive(0.0, text(1, prompt))
    home.run()
    members = [
        Member(name, "g", desk.scheduler, role=Role.ANY, ready_at=0.0)
        for name, desk in (("idle", idle), ("home", home))
    ]

    def soonest() -> str:
        request = text(9, prompt)
        return by_total(
            member.candidate(request, transfer_s=0.0, now=home.now) for member in members
        )[0].instance

    assert soonest() == "home"
    home.arrive(home.now, *(text(n, range(n * 1000, n * 1000 + 48)) for n in range(2, 6)))
    home.run(until=home.now)
    assert soonest() == "idle"


def test_where_an_instance_stands() -> None:
    member = Member("one", "g", Desk().scheduler, role=Role.ANY, ready_at=0.0)
    assert member.standing is Standing.STARTING
    with pytest.raises(StandingError):
        member.turn(Turn.DRAIN)
    for turn, standing in (
        (Turn.STARTED, Standing.RUNNING),
        (Turn.DRAIN, Standing.DRAINING),
        (Turn.KEEP, Standing.RUNNING),
        (Turn.LOST, Standing.STARTING),
        (Turn.LOST, Standing.STARTING),
    ):
        member.turn(turn)
        assert member.standing is standing
