"""What is wanted of a placement."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlled_world import LOCAL, OPTIONS, PICTURE, SPLIT, option_of, seen
from headtail_device.controller import Caution, Controller, Goal, Option
from headtail_device.placement import Local

NEVER = Caution(headroom=1e12)


def chosen(
    goal: Goal,
    options: tuple[Option, ...] = OPTIONS,
    *,
    rate_bytes_s: float = 1e6,
    rtt_s: float = 0.03,
    remaining_s: float = 10.0,
    edge_ready: bool = True,
) -> Option:
    observation = seen(
        rate_bytes_s=rate_bytes_s, rtt_s=rtt_s, remaining_s=remaining_s, edge_ready=edge_ready
    )
    controller = Controller(options, goal=goal, caution=NEVER)
    return option_of(controller, controller.place(observation))


def test_lowest_latency_follows_the_link() -> None:
    goal = Goal()
    assert chosen(goal, rate_bytes_s=50e6) == PICTURE
    assert chosen(goal, rate_bytes_s=1e6) == SPLIT
    assert chosen(goal, rate_bytes_s=20e3) == LOCAL


def test_lowest_bytes_sends_only_for_the_deadline() -> None:
    goal = Goal(mode="lowest-bytes")
    assert chosen(goal, rate_bytes_s=50e6) == LOCAL
    assert chosen(goal, rate_bytes_s=1e6, remaining_s=0.3) == SPLIT


def test_lowest_energy_weighs_computing_against_sending() -> None:
    goal = Goal(mode="lowest-energy")
    assert chosen(goal, rate_bytes_s=1e6) == PICTURE
    assert chosen(goal, rate_bytes_s=2e5) == SPLIT
    assert chosen(goal, rate_bytes_s=5e3) == LOCAL


def test_deadline_takes_the_most_accurate_in_time() -> None:
    goal = Goal(mode="deadline", max_drop=0.05)
    exact, rough = replace(SPLIT, drop=0.0), replace(PICTURE, drop=0.03)
    options = (LOCAL, exact, rough)
    assert chosen(goal, options, rate_bytes_s=1e6) == exact
    assert chosen(goal, options, rate_bytes_s=4e6, remaining_s=0.2) == rough
    # None is in time: the best of what is.
    assert chosen(goal, options, rate_bytes_s=1e4, remaining_s=0.1) == LOCAL


def test_fixed_is_what_it_says() -> None:
    goal = Goal(mode="fixed", fixed=SPLIT.placement)
    assert chosen(goal, rate_bytes_s=1e3, remaining_s=0.1) == SPLIT
    assert chosen(goal, edge_ready=False) == LOCAL


def test_the_accuracy_floor_holds_and_local_is_always_allowed() -> None:
    goal = Goal(max_drop=0.003)
    assert goal.allowed(OPTIONS) == (LOCAL, SPLIT)
    assert chosen(goal, rate_bytes_s=50e6) == SPLIT
    assert Goal(max_drop=-1.0).allowed(OPTIONS) == (LOCAL,)


def test_mode_and_placement_belong_together() -> None:
    with pytest.raises(ValueError, match="fixed"):
        Goal(mode="fixed")
    with pytest.raises(ValueError, match="fixed"):
        Goal(fixed=Local(degraded=False))


POINTS = tuple(
    replace(
        SPLIT,
        point=name,
        coverage=coverage,
        drop=drop,
        gates_s=0.02,
        device_s=0.08,
    )
    for name, coverage, drop in (
        ("off", 0.0, 0.002),
        ("careful", 0.4, 0.003),
        ("even", 0.6, 0.008),
        ("eager", 0.8, 0.025),
    )
)


@given(
    st.lists(st.floats(5e3, 1e8), min_size=2, max_size=2),
    st.floats(0.0, 0.3),
    st.floats(0.001, 0.1),
)
@settings(max_examples=40, deadline=None)
def test_the_worse_the_link_the_more_eager_the_exits(
    rates: list[float], rtt_s: float, price_s: float
) -> None:
    """The cost is linear in what a frame takes beyond its exits, with slope 1 - coverage, so the
    lowest of the lines never becomes steeper."""
    goal = Goal(max_drop=0.03, seconds_a_point=price_s)
    local = replace(LOCAL, device_s=1e6)
    worse, better = (
        chosen(goal, (*POINTS, local), rate_bytes_s=rate, rtt_s=rtt_s, remaining_s=1e9)
        for rate in sorted(rates)
    )
    assert worse.coverage >= better.coverage
    assert worse.drop <= 0.03


def test_thresholds_stay_within_the_accuracy_floor_and_the_cost_is_shown() -> None:
    goal = Goal(max_drop=0.01, seconds_a_point=0.001)
    decision = Controller((*POINTS, LOCAL), goal=goal).place(seen(rate_bytes_s=2e5))
    assert decision.forecast is not None
    assert (decision.exit_point, decision.forecast.drop) == ("even", 0.008)
    fine = Controller((*POINTS, LOCAL), goal=Goal(seconds_a_point=1.0))
    assert fine.place(seen(rate_bytes_s=1e8)).exit_point == "off"
