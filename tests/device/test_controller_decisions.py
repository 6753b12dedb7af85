"""The controller as a whole, in a world that is known."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlled_world import LOCAL, OPTIONS, PICTURE, SPLIT, World, seen
from headtail_device.controller import (
    Caution,
    Controller,
    ControllerPolicy,
    Finished,
    Goal,
    Reason,
    SlotLink,
)
from headtail_device.placement import Local, Policy
from headtail_fabric.clock import FakeClock


def best_s(world: World, rate: float) -> float:
    """The mean latency of whoever knows everything."""
    return min(
        option.device_s * world.slower
        + (
            0.0
            if option is LOCAL
            else world.rtt_s + option.payload_bytes / rate + option.server_s * world.edge_slower
        )
        for option in OPTIONS
    )


@pytest.mark.parametrize("rate", [1e4, 3e4, 1e5, 3e5, 1e6, 3e6, 1e7])
@pytest.mark.parametrize("slower", [0.3, 1.0, 5.0])
def test_on_any_steady_link_it_comes_near_the_best_way(rate: float, slower: float) -> None:
    world = World(rate_bytes_s=lambda _now: rate, slower=slower, edge_slower=0.5)
    controller = Controller(OPTIONS)
    world.run(controller, 60.0)
    settled = world.latencies_s[len(world.latencies_s) // 3 :]
    assert sum(settled) / len(settled) <= 1.10 * best_s(world, rate)
    assert controller.changes <= 3


def test_it_follows_a_link_that_gets_worse_and_better() -> None:
    world = World(rate_bytes_s=lambda now: 2e4 if 30 <= now < 60 else 1e7)
    controller = Controller(OPTIONS)
    before, during, after = (world.run(controller, until_s) for until_s in (30.0, 60.0, 120.0))
    assert before[-1].option == PICTURE
    assert sum(decision.option == LOCAL for decision in during) > 0.8 * len(during)
    assert after[-1].option == PICTURE


@given(st.floats(0.1, 20.0), st.floats(1e3, 1e5), st.floats(1e5, 1e8), st.integers(0, 9))
@settings(max_examples=10, deadline=None)
def test_on_an_oscillating_link_it_never_flaps(
    half_period_s: float, low: float, high: float, seed: int
) -> None:
    """However fast the link swings, two changes at most in each dwell; and dwells grow."""
    draw = random.Random(seed)
    world = World(
        rate_bytes_s=lambda now: (
            (low if int(now / half_period_s) % 2 else high) * draw.uniform(0.8, 1.2)
        ),
        period_s=0.2,
    )
    controller = Controller(OPTIONS)
    world.run(controller, 90.0)
    assert controller.changes <= 20


def test_a_try_is_rare_and_leaves_the_usual_choice_alone() -> None:
    world = World(rate_bytes_s=lambda _now: 2e4)
    controller = Controller(OPTIONS)
    decisions = world.run(controller, 300.0)
    tried = [decision for decision in decisions if decision.reason is Reason.TRIED]
    assert 1 <= len(tried) == controller.tries <= 1 + 0.05 * len(decisions)
    assert controller.changes <= 1
    assert all(decision.option.needs_edge for decision in tried)
    assert all(decision.usual_s == pytest.approx(0.4, rel=0.05) for decision in tried)


def test_nothing_is_tried_under_a_tight_deadline() -> None:
    world = World(rate_bytes_s=lambda _now: 2e4, deadline_s=0.6)
    controller = Controller(OPTIONS)
    world.run(controller, 60.0)
    assert controller.tries == 0
    assert max(world.latencies_s) <= 0.6


def test_without_an_edge_the_device_answers_and_says_if_it_is_missed() -> None:
    controller = Controller(OPTIONS)
    decision = controller.decide(seen(edge_ready=False), 0.0)
    assert decision.placement == Local(degraded=True)
    assert decision.reason is Reason.NO_EDGE
    happy = Controller(OPTIONS).decide(seen(edge_ready=False, rate_bytes_s=1e3), 0.0)
    assert happy.placement == Local(degraded=False)
    assert happy.reason is Reason.BEST


@pytest.mark.parametrize(
    "observation",
    [
        seen(retry_in_s=0.5),
        seen(remaining_s=0.0),
        replace(seen(), free_window=0),
    ],
)
def test_an_edge_that_can_not_be_had_is_not_used(observation: object) -> None:
    decision = Controller(OPTIONS).decide(observation, 0.0)  # type: ignore[arg-type]
    assert decision.option == LOCAL


def test_requests_under_way_delay_the_next() -> None:
    controller = Controller((SPLIT, replace(LOCAL, device_s=9.0)))
    slow = seen(rate_bytes_s=1e5, in_flight=1)
    first = controller.decide(slow, 0.0).forecast.latency_s
    second = controller.decide(slow, 0.01).forecast.latency_s
    assert second > first + 0.15
    idle = controller.decide(replace(slow, in_flight=0), 0.02).forecast.latency_s
    assert idle == pytest.approx(first)


def test_what_does_not_fit_the_anonymous_cells_is_left_out() -> None:
    slots = SlotLink(payload_bytes=32_768, rate_bytes_s=1e5)
    controller = Controller(OPTIONS, slots=slots)
    assert controller.options == (LOCAL, SPLIT)
    # The slots' rate counts, not the link's.
    assert controller.decide(seen(rate_bytes_s=1e9), 0.0).option == LOCAL


def test_given_up_frames_teach_it_to_stay() -> None:
    controller = Controller(OPTIONS, goal=Goal(max_drop=0.003))
    now = 0.0
    for _ in range(6):
        decision = controller.decide(seen(), now)
        answered = not decision.option.needs_edge
        total_s = 0.4 if answered else 5.0
        was = Finished(device_s=decision.forecast.device_s, total_s=total_s, answered=answered)
        now += total_s
        controller.finished(decision, was, now)
    assert controller.decide(seen(), now).option == LOCAL


def test_one_option_must_be_local() -> None:
    with pytest.raises(ValueError, match="need no edge"):
        Controller((SPLIT,))


def test_behind_the_policy_seam() -> None:
    policy: Policy = ControllerPolicy(Controller(OPTIONS, caution=Caution()), FakeClock())
    assert policy.place(seen()) == SPLIT.placement
    assert policy.place(seen(edge_ready=False)) == Local(degraded=True)


def test_its_state_shows() -> None:
    assert "changes=0" in repr(Controller(OPTIONS))
