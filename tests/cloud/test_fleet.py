"""Many instances as one: dispatch, starts, losses, and that no request is ever lost."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloud_doubles import SEGMENT, said, tail, text
from fleet_desk import START_S, FleetDesk, plan
from headtail_cloud.core.actions import Outcome, Reason
from headtail_cloud.core.engine import Capacity
from headtail_cloud.core.events import DrainAsked
from headtail_cloud.core.options import SchedulerOptions
from headtail_cloud.core.request import Segment
from headtail_cloud.dispatch.events import RequestAnnounced
from headtail_cloud.dispatch.fleet import MAX_STARTS, Fleet
from headtail_cloud.dispatch.placement import Candidate, by_total
from headtail_cloud.engines.modelled import Prices

SLOW = Prices(step_s=0.001, run_s=0.05, item_s=0.01)


def outcomes(desk: FleetDesk) -> dict[str, Outcome]:
    return {name: finish.outcome for name, finish in desk.finished.items()}


def ran_on(desk: FleetDesk, request_id: str) -> set[str]:
    return {
        instance
        for instance, steps in desk.steps.items()
        for step in steps
        if any(task.request_id == request_id for task in step.tasks)
    }


def test_the_formula_adds_all_parts() -> None:
    near = Candidate(instance="near", queue_s=0.5, run_s=0.1)
    cold = Candidate(instance="cold", start_s=0.3, run_s=0.1)
    far = Candidate(instance="far", transfer_s=0.2, run_s=0.3)
    assert [c.instance for c in by_total([near, cold, far])] == ["cold", "far", "near"]
    twin = dataclasses.replace(cold, instance="twin")
    assert [c.instance for c in by_total([cold, twin])] == ["cold", "twin"], "a tie: the first"


def test_the_least_instances_are_started_at_once() -> None:
    desk = FleetDesk(plan(least=2, most=3))
    desk.run(0.5)
    assert desk.starts == ["group/1", "group/2"]
    desk.arrive(0.5, tail(1))
    desk.run(1.0)
    assert outcomes(desk) == {"tail-1": Outcome.DONE}


def test_a_request_goes_where_it_is_done_soonest() -> None:
    """With two idle instances a second request goes to the other one."""
    desk = FleetDesk(plan(least=2, most=2, prices=SLOW), prices=SLOW)
    desk.arrive(1.0, tail(1, deadline_s=1.0))
    desk.arrive(1.001, tail(2, deadline_s=1.0))
    desk.run(2.0)
    assert ran_on(desk, "tail-1") != ran_on(desk, "tail-2")


def test_another_instance_is_started_when_that_is_sooner_than_waiting() -> None:
    desk = FleetDesk(plan(least=1, most=2, prices=SLOW), prices=SLOW)
    desk.arrive(1.0, tail(1, deadline_s=1.0))
    desk.arrive(1.001, *(tail(n, deadline_s=1.0) for n in range(2, 5)))
    desk.run(2.0)
    assert desk.starts == ["group/1", "group/2"]
    assert set(outcomes(desk).values()) == {Outcome.DONE}


def test_a_prompt_goes_where_its_beginning_is() -> None:
    desk = FleetDesk(plan(least=2, most=2))
    prompt = list(range(40))
    for number in range(4):
        desk.arrive(1.0 + number, text(number, [*prompt, 100 + number]))
    desk.run(9.0)
    homes = [ran_on(desk, f"text-{number}") for number in range(4)]
    assert homes.count(homes[0]) == 4
    for number in range(4):
        assert desk.tokens[f"text-{number}"] == said([*prompt, 100 + number], 4)


def test_a_cold_start_is_waited_for_or_said() -> None:
    desk = FleetDesk(plan(least=0, most=1))
    desk.arrive(1.0, tail(1, deadline_s=1.0), tail(2, deadline_s=START_S / 4))
    desk.run(2.0)
    assert desk.starts == ["group/1"]
    assert outcomes(desk) == {"tail-1": Outcome.DONE}
    assert desk.rejected["tail-2"].reason is Reason.COLD_START
    assert desk.rejected["tail-2"].retry_after_s == pytest.approx(0.05)


def test_a_request_that_is_too_late_for_a_cold_start_begins_it() -> None:
    desk = FleetDesk(plan(least=0, most=1))
    desk.arrive(1.0, tail(1, deadline_s=START_S / 4))
    desk.arrive(1.0 + 2 * START_S, tail(2, deadline_s=0.05))
    desk.run(2.0)
    assert desk.rejected["tail-1"].reason is Reason.COLD_START
    assert outcomes(desk) == {"tail-2": Outcome.DONE}


def test_an_announced_tail_finds_its_instance_running() -> None:
    desk = FleetDesk(plan(least=0, most=1))
    desk.at(1.0, RequestAnnounced(group="group", due_in_s=0.5))
    desk.arrive(1.6, tail(1, deadline_s=START_S / 4))
    desk.run(3.0)
    assert outcomes(desk) == {"tail-1": Outcome.DONE}


def test_unused_instances_go_to_zero_and_come_back() -> None:
    desk = FleetDesk(plan(least=0, most=1, stable_s=5.0, keep_alive_s=10.0))
    desk.arrive(1.0, tail(1, deadline_s=1.0))
    desk.run(9.0)
    assert desk.stops == []
    desk.run(30.0)
    assert desk.stops == ["group/1"]
    assert desk.fleet.members == ()
    desk.arrive(40.0, tail(2, deadline_s=1.0))
    desk.run(41.0)
    assert outcomes(desk) == {"tail-1": Outcome.DONE, "tail-2": Outcome.DONE}


def test_the_whole_group_stays_while_any_segment_of_it_is_used() -> None:
    """A head's tail that is used now and then keeps the other cuts of its network, too."""
    other = Segment("yolo@1.0", "other")
    shape = dataclasses.replace(
        plan(least=0, most=1, stable_s=5.0, keep_alive_s=5.0), serves=frozenset({SEGMENT, other})
    )
    desk = FleetDesk(shape)
    for number in range(20):
        chain = ((other if number % 2 else SEGMENT),)
        desk.arrive(1.0 + 4 * number, tail(number, deadline_s=1.0, chain=chain))
    desk.run(80.0)
    assert desk.starts == ["group/1"]
    assert desk.stops == []
    desk.run(120.0)
    assert desk.stops == ["group/1"]


def test_a_killed_worker_costs_no_request() -> None:
    desk = FleetDesk(plan(least=2, most=2, prices=SLOW), prices=SLOW)
    desk.arrive(1.0, *(tail(n, deadline_s=5.0) for n in range(6)))
    desk.run(1.01)
    desk.kill("group/1")
    desk.run(5.0)
    assert len(outcomes(desk)) == 6
    assert set(outcomes(desk).values()) == {Outcome.DONE}
    assert desk.starts.count("group/1") == 2, "and it was started again"


def test_a_killed_worker_in_a_prefill_and_in_a_decode() -> None:
    desk = FleetDesk(plan(least=2, most=2))
    prompts = {n: list(range(n * 100, n * 100 + 30)) for n in range(4)}
    desk.arrive(1.0, *(text(n, prompt, max_tokens=60) for n, prompt in prompts.items()))
    desk.run(1.02)
    desk.kill("group/2")
    desk.run(1.13)
    assert all(0 < len(desk.tokens[f"text-{n}"]) < 60 for n in prompts), "all decode now"
    desk.kill("group/1")
    desk.run(9.0)
    assert set(outcomes(desk).values()) == {Outcome.DONE}
    for number, prompt in prompts.items():
        assert desk.tokens[f"text-{number}"] == said(prompt, 60)


def test_one_that_kills_its_worker_is_answered_and_others_are_unharmed() -> None:
    desk = FleetDesk(plan(least=2, most=2), deadly=["tail-3"])
    desk.arrive(1.0, *(tail(n, deadline_s=5.0) for n in range(8)))
    desk.run(9.0)
    ends = outcomes(desk)
    assert ends.pop("tail-3") is Outcome.FAILED
    assert list(ends.values()) == [Outcome.DONE] * 7
    assert len(ran_on(desk, "tail-3")) == 2, "it was tried on another one"
    tried = [
        1
        for steps in desk.steps.values()
        for step in steps
        for task in step.tasks
        if task.request_id == "tail-3"
    ]
    assert len(tried) == 2


def test_a_worker_killed_while_idle_is_noticed() -> None:
    desk = FleetDesk(plan(least=1, most=1))
    desk.run(1.0)
    desk.kill("group/1")
    desk.arrive(1.5, tail(1))
    desk.run(2.0)
    assert outcomes(desk) == {"tail-1": Outcome.DONE}
    assert desk.finished["tail-1"].on_time


def test_an_instance_that_does_not_start_is_tried_again() -> None:
    desk = FleetDesk(plan(least=1, most=1))
    desk.start_fails = MAX_STARTS - 1
    desk.arrive(0.5, tail(1, deadline_s=10.0))
    desk.run(5.0)
    assert len(desk.starts) == MAX_STARTS
    assert outcomes(desk) == {"tail-1": Outcome.DONE}


def test_one_that_never_starts_fails_its_requests() -> None:
    desk = FleetDesk(plan(least=0, most=1))
    desk.start_fails = 1000
    desk.arrive(0.5, tail(1, deadline_s=30.0))
    desk.run(5.0)
    assert outcomes(desk) == {"tail-1": Outcome.FAILED}
    assert "no memory" in desk.finished["tail-1"].message
    desk.start_fails = 0
    desk.arrive(6.0, tail(2, deadline_s=30.0))
    desk.run(9.0)
    assert outcomes(desk)["tail-2"] is Outcome.DONE, "a later request begins anew"


def test_ten_thousand_at_once_are_refused_early() -> None:
    desk = FleetDesk(
        plan(least=2, most=2), options=SchedulerOptions(max_waiting=64, max_waiting_per_tenant=64)
    )
    desk.run(1.0)
    desk.arrive(1.0, *(tail(n, deadline_s=5.0) for n in range(10_000)))
    desk.run(1.0)
    assert len(desk.fleet) + len(desk.finished) <= 128
    assert len(desk.rejected) >= 10_000 - 128
    assert all((r.retry_after_s or 0) > 0 for r in desk.rejected.values())
    desk.run(9.0)
    assert set(outcomes(desk).values()) == {Outcome.DONE}
    assert len(desk.finished) + len(desk.rejected) == 10_000


def test_a_tenant_that_floods_delays_itself_alone() -> None:
    desk = FleetDesk(plan(least=2, most=2))
    desk.run(1.0)
    desk.arrive(1.0, *(tail(n, tenant="flood", deadline_s=3.0) for n in range(500)))
    for number in range(20):
        desk.arrive(1.05 + number * 0.05, tail(1000 + number, tenant="calm", deadline_s=0.1))
    desk.run(9.0)
    calm = {name: end for name, end in desk.finished.items() if int(name[5:]) >= 1000}
    assert len(calm) == 20
    assert all(end.on_time for end in calm.values())


def test_draining_ends_what_is_here_and_takes_nothing_more() -> None:
    desk = FleetDesk(plan(least=1, most=2))
    desk.arrive(1.0, text(1, range(20), max_tokens=10))
    desk.at(1.01, DrainAsked())
    desk.arrive(1.02, tail(2))
    desk.run(5.0)
    assert outcomes(desk) == {"text-1": Outcome.DONE}
    assert desk.rejected["tail-2"].reason is Reason.DRAINING
    assert desk.fleet.idle


def test_what_nobody_serves_and_what_is_here_already() -> None:
    desk = FleetDesk()
    desk.run(1.0)
    desk.arrive(1.0, tail(1, chain=(Segment("other@1", "tail"),)))
    with pytest.raises(ValueError, match="nobody serves"):
        desk.run(1.1)
    desk.arrive(1.2, tail(1), tail(1))
    with pytest.raises(ValueError, match="here already"):
        desk.run(1.3)
    with pytest.raises(ValueError, match="two groups"):
        Fleet([plan(name="a"), plan(name="b")])


@settings(max_examples=40, deadline=None)
@given(
    arrivals=st.lists(
        st.tuples(st.floats(0, 2), st.booleans(), st.integers(1, 30)), min_size=1, max_size=25
    ),
    kills=st.lists(st.tuples(st.floats(0, 3), st.integers(0, 2)), max_size=5),
    cancels=st.lists(st.tuples(st.floats(0, 3), st.integers(0, 24)), max_size=4),
    prefills=st.integers(0, 1),
    failing_starts=st.integers(0, 2),
)
def test_whatever_dies_each_request_ends_once_and_says_what_it_should(
    arrivals: list[tuple[float, bool, int]],
    kills: list[tuple[float, int]],
    cancels: list[tuple[float, int]],
    prefills: int,
    failing_starts: int,
) -> None:
    capacity = Capacity(max_batch=3, blocks=24, block_tokens=4)
    desk = FleetDesk(plan(least=1, most=3, capacity=capacity, prefills=prefills))
    desk.start_fails = failing_starts
    for number, (when, is_text, size) in enumerate(arrivals):
        if is_text:
            desk.arrive(when, text(number, range(size), max_tokens=5, priority=size % 2))
        else:
            desk.arrive(when, tail(number, deadline_s=20.0))
    for when, number in cancels:
        for kind in ("tail", "text"):
            desk.cancel(when, f"{kind}-{number}")
    for when, which in sorted(kills):
        desk.run(when)
        alive = sorted(desk.engines)
        if alive:
            desk.kill(alive[which % len(alive)])
    desk.run(60.0)
    assert desk.fleet.idle
    assert len(desk.fleet) == 0
    assert desk.finished.keys() == desk.accepted.keys()
    assert len(desk.finished) + len(desk.rejected) == len(arrivals)
    for number, (_, is_text, size) in enumerate(arrivals):
        finish = desk.finished.get(f"text-{number}")
        if is_text and finish is not None and finish.outcome is Outcome.DONE:
            assert desk.tokens[f"text-{number}"] == said(range(size), 5)
    for member in desk.fleet.members:
        pool = member.scheduler.cache.pool
        assert pool.free == pool.total, "no block is held by nobody"
