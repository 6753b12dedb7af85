"""Choices on a clock that the test turns."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from headtail_fabric.fleet.chooser import EdgeChooser
from headtail_fabric.wire import Hints


def chooser(*rtts: float) -> EdgeChooser:
    """That many edges, all there, with these round trips."""
    made = EdgeChooser(len(rtts))
    for edge, rtt_s in enumerate(rtts):
        made.connected(edge, serves=True)
        made.measured(edge, rtt_s)
    return made


def busy(queue_ms: int) -> Hints:
    return Hints(queue_ms=queue_ms)


def test_the_nearest_is_used_and_of_equals_the_first() -> None:
    assert chooser(0.05, 0.01).choose(0.0) == 1
    assert chooser(0.01, 0.01).choose(0.0) == 0


def test_none_is_used_that_is_gone_or_lacks_the_bundle() -> None:
    edges = EdgeChooser(3)
    assert edges.choose(0.0) is None
    edges.connected(1, serves=False)
    assert edges.choose(0.0) is None
    edges.serving(1, serves=True)
    assert edges.choose(0.0) == 1
    edges.disconnected(1)
    assert edges.choose(0.0) is None


def test_the_next_is_used_at_once_when_one_is_lost() -> None:
    edges = chooser(0.01, 0.02, 0.03)
    assert edges.choose(0.0) == 0
    edges.disconnected(0)
    assert edges.choose(0.0) == 1
    edges.disconnected(1)
    assert edges.choose(0.0) == 2


def test_a_better_one_must_stay_better_before_it_is_turned_to() -> None:
    edges = chooser(0.010, 0.012)
    assert edges.choose(0.0) == 0
    for tenth in range(19):
        edges.told(0, busy(100), tenth / 10)
        assert edges.choose(tenth / 10) == 0
    edges.told(0, busy(100), 2.0)
    assert edges.choose(2.0) == 1


def test_a_short_burst_changes_nothing() -> None:
    edges = chooser(0.010, 0.012)
    edges.choose(0.0)
    edges.told(0, busy(100), 0.0)
    assert edges.choose(0.0) == 0
    edges.told(0, busy(0), 1.0)
    assert edges.choose(1.0) == 0
    edges.told(0, busy(100), 1.5)
    assert [edges.choose(at) for at in (1.5, 2.5, 3.4)] == [0, 0, 0]


def test_a_little_better_is_not_better() -> None:
    edges = chooser(0.010, 0.007)
    edges.measured(1, None)
    assert edges.choose(0.0) == 0
    edges.measured(1, 0.0076)
    assert [edges.choose(float(at)) for at in range(10)] == [0] * 10


def test_two_that_take_turns_in_being_better_are_not_followed() -> None:
    edges = chooser(0.01, 0.01)
    chosen = []
    for second in range(60):
        edges.told(0, busy(100 * (second % 2)), float(second))
        edges.told(1, busy(100 * ((second + 1) % 2)), float(second))
        chosen.append(edges.choose(float(second)))
    turns = sum(one != other for one, other in pairwise(chosen))
    assert turns <= 1


def test_what_was_said_of_a_queue_is_forgotten_in_time() -> None:
    edges = chooser(0.01, 0.02)
    edges.told(0, busy(1000), 0.0)
    assert edges.choose(0.0) == 1
    chosen = [edges.choose(float(second)) for second in range(1, 20)]
    assert chosen[0] == 1
    assert chosen[-1] == 0


def test_one_that_fails_is_left_alone_for_longer_each_time() -> None:
    edges = chooser(0.01, 0.02)
    edges.choose(0.0)
    edges.failed(0, 0.0)
    assert edges.choose(0.5) == 1
    edges.failed(1, 0.5)
    assert edges.choose(1.0) == 0
    edges.failed(0, 1.0)
    assert edges.choose(1.6) == 1
    assert edges.another(frozenset({1}), 2.9) is None
    assert edges.another(frozenset({1}), 3.0) == 0
    edges.answered(0)
    edges.failed(0, 4.0)
    assert edges.another(frozenset({1}), 5.0) == 0


def test_the_only_one_is_used_although_it_asked_for_a_pause() -> None:
    edges = chooser(0.01)
    assert edges.choose(0.0) == 0
    edges.refused(0, 5.0, 0.0)
    assert edges.choose(0.1) == 0
    assert edges.another(frozenset(), 0.1) is None


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2), st.integers(0, 500))))
def test_what_is_chosen_is_always_there(steps: list[tuple[int, int, int]]) -> None:
    edges, up, now = EdgeChooser(3), set[int](), 0.0
    for kind, edge, value in steps:
        now += value / 100
        match kind:
            case 0:
                edges.connected(edge, serves=True)
                up.add(edge)
            case 1:
                edges.disconnected(edge)
                up.discard(edge)
            case 2:
                edges.told(edge, busy(value), now)
            case 3:
                edges.failed(edge, now)
            case 4:
                edges.refused(edge, value / 100, now)
            case _:
                edges.measured(edge, value / 1000)
        chosen = edges.choose(now)
        assert (chosen in up) if up else chosen is None


def test_its_state_shows() -> None:
    edges = chooser(0.01, 0.02)
    edges.choose(0.0)
    assert repr(edges) == "EdgeChooser(current=0, connected=[0, 1])"
