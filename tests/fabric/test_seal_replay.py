from hypothesis import given
from hypothesis import strategies as st

from headtail_fabric.seal.replay import WINDOW, ReplayWindow


def test_each_number_is_taken_once_in_any_order() -> None:
    window = ReplayWindow()
    for sequence in (5, 3, 4, 0):
        assert window.take(sequence)
        assert not window.take(sequence)
    assert window.take(1)
    assert repr(window) == "ReplayWindow(highest=5, seen=5)"


def test_what_has_left_the_window_is_refused_although_it_never_came() -> None:
    window = ReplayWindow()
    window.take(WINDOW + 9)
    assert not window.fresh(9)
    assert window.take(10)


def test_a_leap_beyond_the_window_forgets_nothing_that_could_come_again() -> None:
    window = ReplayWindow()
    for sequence in range(100):
        window.take(sequence)
    window.take(2**62)
    assert not any(window.fresh(sequence) for sequence in range(100))
    assert not window.fresh(2**62)
    assert window.take(2**62 - WINDOW + 1)


def test_asking_marks_nothing() -> None:
    window = ReplayWindow()
    assert window.fresh(7)
    assert window.fresh(7)


@given(st.lists(st.integers(0, 3 * WINDOW), max_size=200))
def test_against_a_set_that_forgets_nothing(sequences: list[int]) -> None:
    window, taken = ReplayWindow(), set[int]()
    for sequence in sequences:
        old = bool(taken) and sequence <= max(taken) - WINDOW
        assert window.take(sequence) == (sequence not in taken and not old)
        taken.add(sequence)
