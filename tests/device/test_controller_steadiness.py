"""Hysteresis: what works is not left for little, and nothing flaps."""

import itertools
from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from headtail_device.controller.goal import Cost
from headtail_device.controller.steadiness import Steadiness, SteadinessSettings

HERE = frozenset({"here"})


def costs(late: frozenset[str] = frozenset(), /, **amounts: float) -> Mapping[str, Cost]:
    return {name: Cost(late=name in late, amount=amount) for name, amount in amounts.items()}


def held(now: float = 0.0, **amounts: float) -> Steadiness:
    steadiness = Steadiness()
    steadiness.choose(costs(**amounts), HERE, now)
    return steadiness


def test_first_the_cheapest_by_name_when_equal() -> None:
    steadiness = Steadiness()
    assert steadiness.choose(costs(here=1, there=1), HERE, 0.0) == "here"
    assert steadiness.current == "here"
    assert steadiness.changes == 0


def test_a_little_better_is_not_worth_a_change() -> None:
    steadiness = held(here=1.0, there=2.0)
    for at in range(50):
        assert steadiness.choose(costs(here=1.0, there=0.97), HERE, float(at)) == "here"


def test_better_for_a_while_is() -> None:
    steadiness = held(here=1.0, there=2.0)
    chosen = [steadiness.choose(costs(here=1.0, there=0.9), HERE, float(at)) for at in range(4)]
    assert chosen == ["here", "here", "there", "there"]


def test_much_better_is_at_once() -> None:
    steadiness = held(here=1.0, there=2.0)
    assert steadiness.choose(costs(here=1.0, there=0.1), HERE, 1.0) == "there"


def test_within_a_dwell_nothing_is_changed_for_cost() -> None:
    steadiness = held(here=1.0, there=2.0)
    steadiness.choose(costs(here=1.0, there=0.1), HERE, 1.0)
    assert steadiness.choose(costs(here=0.01, there=0.1), HERE, 1.5) == "there"
    assert steadiness.choose(costs(here=0.01, there=0.1), HERE, 2.1) == "here"


def test_what_is_gone_is_left_at_once_and_the_refuge_is_kept() -> None:
    steadiness = held(here=1.0, there=0.1)
    assert steadiness.choose(costs(here=1.0), HERE, 0.1) == "here"
    assert steadiness.choose(costs(here=1.0, there=0.1), HERE, 0.2) == "here"
    assert steadiness.choose(costs(here=1.0, there=0.1), HERE, 1.2) == "there"


def test_what_would_be_late_is_left_at_once_but_not_for_what_is_late_too() -> None:
    steadiness = held(here=1.0, there=0.1)
    late = frozenset({"there"})
    both = costs(late | {"here"}, here=1.0, there=1.02)
    assert steadiness.choose(both, HERE, 1.0) == "there"
    assert steadiness.choose(costs(late, here=1.0, there=2.0), HERE, 1.1) == "here"


def test_during_a_dwell_one_flees_to_a_refuge_only() -> None:
    steadiness = held(here=1.0, there=0.5, other=3.0)
    steadiness.choose(costs(here=1.0, there=0.5, other=0.1), HERE, 1.0)
    late = frozenset({"other"})
    chosen = steadiness.choose(costs(late, here=1.0, there=0.5, other=3.0), HERE, 1.1)
    assert chosen == "here"


def test_without_a_refuge_in_time_it_stays() -> None:
    steadiness = held(here=1.0, there=0.5, other=3.0)
    steadiness.choose(costs(here=1.0, there=0.5, other=0.1), HERE, 1.0)
    late = frozenset({"other", "here"})
    chosen = steadiness.choose(costs(late, here=1.0, there=0.5, other=3.0), HERE, 1.1)
    assert chosen == "other"


def test_going_back_and_forth_makes_the_dwells_longer() -> None:
    steadiness = held(here=1.0, there=2.0)
    at, changed_at, good = 0.0, [], True
    while at < 200:
        before = steadiness.changes
        amounts = {"here": 1.0, "there": 0.1 if good else 10.0}
        steadiness.choose(costs(**amounts), HERE, at)
        if steadiness.changes > before:
            changed_at.append(at)
            good = not good
        at += 0.1
    gaps = [after - before for before, after in itertools.pairwise(changed_at)]
    assert gaps[-1] > 20 > gaps[0]
    assert f"changes={len(changed_at)}" in repr(steadiness)


def test_after_a_quiet_time_they_are_short_again() -> None:
    steadiness = held(here=1.0, there=2.0)
    for at in range(60):
        steadiness.choose(costs(here=1.0, there=0.1 if at % 2 else 9.0), HERE, float(at))
    steadiness.choose(costs(here=1.0, there=9.0), HERE, 10_000.0)
    changes = steadiness.changes
    steadiness.choose(costs(here=1.0, there=0.1), HERE, 10_001.5)
    steadiness.choose(costs(here=1.0, there=9.0), HERE, 10_004.0)
    assert steadiness.changes >= changes + 1


@given(
    st.lists(
        st.tuples(
            st.floats(0.01, 100), st.floats(0.01, 100), st.floats(0.01, 100), st.integers(0, 7)
        ),
        min_size=1,
        max_size=300,
    ),
    st.floats(0.01, 0.5),
)
@settings(max_examples=40, deadline=None)
def test_however_costs_jump_changes_are_bounded(
    steps: list[tuple[float, float, float, int]], period_s: float
) -> None:
    """At most a flight and a return a dwell."""
    settings = SteadinessSettings()
    steadiness = Steadiness(settings)
    now = 0.0
    for here, there, other, late in steps:
        names = [name for bit, name in enumerate(("here", "there", "other")) if late >> bit & 1]
        amounts = costs(frozenset(names), here=here, there=there, other=other)
        assert steadiness.choose(amounts, HERE, now) in amounts
        now += period_s
    assert steadiness.changes <= 2 * (now / settings.dwell_s + 1)
