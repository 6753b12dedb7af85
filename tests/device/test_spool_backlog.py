"""What is sent of the spool, and when."""

import pytest

from headtail_device.spool import Backlog, Waiting


def entry(number: int, *, captured_at: float = 0.0, sendable: bool = True) -> Waiting:
    return Waiting(
        number=number,
        index=number,
        origin=f"test#{number}",
        captured_at=captured_at,
        sendable=sendable,
    )


def backlog(*numbers: int, share: float = 0.25, keep_s: float = 100.0) -> Backlog:
    made = Backlog(share=share, keep_s=keep_s)
    for number in numbers:
        made.add(entry(number))
    return made


def chosen(made: Backlog, now: float) -> int | None:
    waiting = made.next(now)
    return None if waiting is None else waiting.number


def test_the_oldest_goes_first_and_one_at_a_time() -> None:
    made = backlog(1, 2)
    assert chosen(made, 0.0) == 1
    made.sent(1, 0.0)
    assert (chosen(made, 0.0), made.due_in_s(0.0)) == (None, None)
    made.gone(1, 1.0)
    assert chosen(made, 1.0) == 2
    assert repr(made) == "<Backlog waiting=1 sent=None wait_s=0>"


def test_live_frames_have_their_share() -> None:
    made = backlog(1, 2)
    made.sent(1, 10.0)
    made.live_frame(11.0)
    made.gone(1, 12.0)  # it took two seconds, so three times that is for the others
    assert made.due_in_s(12.0) == pytest.approx(6.0)
    assert chosen(made, 17.9) is None
    assert chosen(made, 18.0) == 2


def test_over_a_long_time_the_spool_takes_no_more_than_its_share() -> None:
    made = backlog(*range(1000), share=0.2)
    now = busy_s = 0.0
    while now < 100.0:
        made.live_frame(now)
        waiting = made.next(now)
        if waiting is None:
            now += 0.01
            continue
        took_s = 0.05 + (waiting.number % 7) * 0.05
        made.sent(waiting.number, now)
        now += took_s
        busy_s += took_s
        made.live_frame(now)
        made.gone(waiting.number, now)
    assert busy_s / now == pytest.approx(0.2, abs=0.01)


def test_without_live_frames_there_is_no_pause() -> None:
    made = backlog(1, 2)
    made.live_frame(0.0)
    made.sent(1, 10.0)
    made.gone(1, 12.0)
    assert chosen(made, 12.0) == 2


def test_a_setback_waits_longer_each_time_until_something_succeeds() -> None:
    made = backlog(1, 2)
    waits = []
    now = 0.0
    for _ in range(8):
        made.sent(1, now)
        made.set_back(now)
        assert not made.hopeful
        wait_s = made.due_in_s(now)
        assert wait_s is not None
        waits.append(wait_s)
        now += wait_s
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
    made.sent(1, now)
    made.gone(1, now)
    assert made.hopeful
    made.sent(2, now)
    made.set_back(now, wait_s=5.0)
    assert made.due_in_s(now) == 5.0
    made.welcome()
    assert made.due_in_s(now) == 0.0


def test_what_the_edge_fails_three_times_is_given_up() -> None:
    made = backlog(1)
    assert [made.refused(1) for _ in range(3)] == [False, False, True]


def test_a_lost_connection_gives_it_back() -> None:
    made = backlog(1)
    made.sent(1, 0.0)
    made.recall()
    assert chosen(made, 0.0) == 1


def test_old_entries_are_expired_but_not_the_one_at_the_edge() -> None:
    made = Backlog(share=0.5, keep_s=10.0)
    for number, captured_at in enumerate([0.0, 1.0, 5.0]):
        made.add(entry(number, captured_at=captured_at))
    made.add(entry(9, captured_at=0.5, sendable=False))
    made.sent(0, 2.0)
    assert [waiting.number for waiting in made.expired(11.0)] == [1, 9]
    assert made.expired(9.0) == ()


def test_frames_of_another_bundle_hold_nobody_up() -> None:
    made = Backlog(share=0.5, keep_s=10.0)
    made.add(entry(1, sendable=False))
    assert not made.hopeful
    assert made.due_in_s(0.0) is None
    made.add(entry(2))
    assert chosen(made, 0.0) == 2
    assert (len(made), made[1].number, made[2].number) == (2, 1, 2)
