"""The controller as a whole, in a world that is known."""

import random
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlled_world import LOCAL, OPTIONS, PICTURE, SPLIT, World, option_of, seen
from headtail_device.controller import Controller, Goal, SlotLink
from headtail_device.decision import Decision, Experience, Reason
from headtail_device.placement import Local, Observation
from headtail_device.policy import Policy


def expected_s(decision: Decision) -> float:
    assert decision.forecast is not None
    return decision.forecast.latency_s


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
    assert before[-1].placement == PICTURE.placement
    assert sum(not decision.needs_edge for decision in during) > 0.8 * len(during)
    assert after[-1].placement == PICTURE.placement


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
    assert all(decision.needs_edge for decision in tried)
    assert all(decision.usual_s == pytest.approx(0.4, rel=0.05) for decision in tried)


def test_nothing_is_tried_under_a_tight_deadline() -> None:
    world = World(rate_bytes_s=lambda _now: 2e4, deadline_s=0.6)
    controller = Controller(OPTIONS)
    world.run(controller, 60.0)
    assert controller.tries == 0
    assert max(world.latencies_s) <= 0.6


def test_without_an_edge_the_device_answers_and_says_if_it_is_missed() -> None:
    controller = Controller(OPTIONS)
    decision = controller.place(seen(edge_ready=False))
    assert decision.placement == Local(degraded=True)
    assert decision.reason is Reason.NO_EDGE
    happy = Controller(OPTIONS).place(seen(edge_ready=False, rate_bytes_s=1e3))
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
def test_an_edge_that_can_not_be_had_is_not_used(observation: Observation) -> None:
    assert not Controller(OPTIONS).place(observation).needs_edge


def test_requests_under_way_delay_the_next() -> None:
    controller = Controller((SPLIT, replace(LOCAL, device_s=9.0)))
    slow = seen(rate_bytes_s=1e5, in_flight=1)
    first = expected_s(controller.place(slow))
    second = expected_s(controller.place(replace(slow, now=0.01)))
    assert second > first + 0.15
    idle = expected_s(controller.place(replace(slow, now=0.02, in_flight=0)))
    assert idle == pytest.approx(first)


def test_what_does_not_fit_the_anonymous_cells_is_left_out() -> None:
    slots = SlotLink(payload_bytes=32_768, rate_bytes_s=1e5)
    controller = Controller(OPTIONS, slots=slots)
    assert controller.options == (LOCAL, SPLIT)
    # The slots' rate counts, not the link's.
    assert not controller.place(seen(rate_bytes_s=1e9)).needs_edge


def test_given_up_frames_teach_it_to_stay() -> None:
    controller = Controller(OPTIONS, goal=Goal(max_drop=0.003))
    now = 0.0
    for _ in range(6):
        decision = controller.place(seen(now=now))
        option = option_of(controller, decision)
        answered = not decision.needs_edge
        total_s = 0.4 if answered else 5.0
        was = Experience(device_s=option.device_s, total_s=total_s, answered=answered)
        now += total_s
        controller.finished(decision, was, now)
    assert not controller.place(seen(now=now)).needs_edge


def test_one_option_must_be_local() -> None:
    with pytest.raises(ValueError, match="need no edge"):
        Controller((SPLIT,))


def test_it_is_a_policy_that_says_what_it_expects_and_why() -> None:
    policy: Policy = Controller(OPTIONS)
    decision = policy.place(seen(now=3.0))
    assert (decision.placement, decision.option) == (SPLIT.placement, "mid q4")
    assert (decision.reason, decision.decided_at) == (Reason.BEST, 3.0)
    assert decision.forecast is not None
    assert decision.forecast.latency_s == pytest.approx(0.1 + 0.02 + 0.03 + 0.05)
    assert decision.forecast.drop == SPLIT.drop


def test_requests_at_the_edge_are_served_before_the_next() -> None:
    """The known trouble of a busy edge: four frames that take 0.6 s each are not all 0.6 s
    away from their answers: the last comes after 2.4."""
    slow = replace(SPLIT, server_s=0.6)
    controller = Controller((slow, replace(LOCAL, device_s=0.9)))
    placed = [
        controller.place(seen(now=0.05 * index, in_flight=index, remaining_s=2.0))
        for index in range(4)
    ]
    assert [decision.needs_edge for decision in placed] == [True, False, False, False]
    alone = Controller((slow, replace(LOCAL, device_s=100.0)))
    expected = [
        expected_s(alone.place(seen(now=0.05 * index, in_flight=index))) for index in range(4)
    ]
    assert [after - before for before, after in pairwise(expected)] == pytest.approx(
        [0.55, 0.55, 0.55]
    )


def test_of_an_edge_that_serves_several_at_once_less_waiting_is_expected() -> None:
    slow = replace(SPLIT, server_s=0.6)
    controller = Controller((slow, replace(LOCAL, device_s=100.0)))
    now = 0.0
    for _ in range(30):
        pair = [controller.place(seen(now=now, in_flight=index)) for index in range(2)]
        for decision in pair:
            was = Experience(
                device_s=0.1,
                total_s=0.78,
                payload_bytes=20_000,
                wire_s=0.05,
                queue_s=0.0,
                server_s=0.6,
            )
            controller.finished(decision, was, now + 0.78)
        now += 1.0
    first, second = (controller.place(seen(now=now, in_flight=index)) for index in range(2))
    assert expected_s(second) < expected_s(first) + 0.2


def test_what_is_overdue_keeps_the_next_frame_here() -> None:
    """A link that has gone quiet with a request on it is noticed before any deadline passes."""
    controller = Controller(OPTIONS)
    first = controller.place(seen())
    assert first.needs_edge
    assert first.forecast is not None
    waited_s = first.forecast.upper_s + 0.6
    assert not controller.place(seen(now=waited_s, in_flight=1, oldest_s=waited_s)).needs_edge


def test_what_fails_is_left_alone_for_a_while() -> None:
    controller = Controller(OPTIONS)
    decision = controller.place(seen())
    fault = Experience(device_s=0.0, total_s=0.0, answered=False, fault=True)
    controller.finished(decision, fault, 0.0)
    other = controller.place(seen(now=0.1))
    assert other.option != decision.option
    again = [controller.place(seen(now=2.0 + 0.1 * index)) for index in range(40)]
    assert again[-1].option == decision.option


def test_of_what_was_decided_elsewhere_it_learns_nothing() -> None:
    controller = Controller(OPTIONS)
    advised = Decision(placement=SPLIT.placement, reason=Reason.ADVISED, decided_at=0.0)
    controller.finished(advised, Experience(device_s=9.0, total_s=9.0), 9.0)
    assert expected_s(controller.place(seen(now=9.0))) == pytest.approx(0.2)


def test_its_state_shows() -> None:
    assert "changes=0" in repr(Controller(OPTIONS))
