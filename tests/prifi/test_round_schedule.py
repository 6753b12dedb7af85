"""Turns: who claims what, who gets what, and in which order."""

from hypothesis import given
from hypothesis import strategies as st

from headtail_prifi.core.geometry import Geometry
from headtail_prifi.core.messages import NOBODY
from headtail_prifi.round.schedule import Scheduler, decode_owners, encode_owners, reserved_slots


def scheduler(sub_slots: int = 2, window: int = 2, clients: int = 5) -> Scheduler:
    return Scheduler(Geometry(clients=clients, cell_bytes=128, sub_slots=sub_slots, window=window))


def lanes(*slots: int) -> bytes:
    bits = bytearray(16)
    for slot in slots:
        bits[slot >> 3] |= 0x80 >> (slot & 7)
    return bytes(bits)


def granted(schedule: Scheduler, round_: int) -> tuple[int, ...]:
    return decode_owners(schedule.grant(round_))


def test_nobody_reserved() -> None:
    schedule = scheduler()
    assert schedule.idle
    assert granted(schedule, 0) == (NOBODY, NOBODY)


def test_reservations_are_served_in_turn() -> None:
    schedule = scheduler()
    schedule.on_reservations(0, lanes(4, 1, 3))
    assert not schedule.idle
    assert granted(schedule, 2) == (1, 3)
    assert granted(schedule, 3) == (4, NOBODY)
    assert schedule.idle


def test_a_claim_counts_turns_that_were_granted_meanwhile() -> None:
    schedule = scheduler(sub_slots=1)
    schedule.on_reservations(0, lanes(2))
    assert granted(schedule, 2) == (2,)
    schedule.on_reservations(1, lanes(2))
    assert granted(schedule, 3) == (NOBODY,)
    schedule.on_reservations(2, lanes(2))
    assert granted(schedule, 4) == (2,)


def test_a_backlog_fills_the_net_and_shares_it() -> None:
    schedule = scheduler(sub_slots=3)
    schedule.on_cell(0, 1, 100)
    assert granted(schedule, 1) == (1, 1, 1)
    schedule.on_cell(0, 4, 100)
    turns = [slot for round_ in range(2, 12) for slot in granted(schedule, round_)]
    assert abs(turns.count(1) - turns.count(4)) <= 1
    assert turns.count(NOBODY) == 0


def test_a_backlog_is_replaced_not_added() -> None:
    schedule = scheduler(sub_slots=1)
    schedule.on_cell(0, 1, 5)
    schedule.on_cell(1, 1, 2)
    assert [granted(schedule, round_)[0] for round_ in range(2, 6)] == [1, 1, NOBODY, NOBODY]


def test_silence_gives_up_what_was_claimed() -> None:
    schedule = scheduler()
    schedule.on_cell(0, 1, 9)
    schedule.on_silence(1)
    assert schedule.idle
    assert granted(schedule, 3) == (NOBODY, NOBODY)


def test_a_disrupted_owner_gets_another_turn() -> None:
    schedule = scheduler(sub_slots=1)
    schedule.on_disruption(3, 2)
    schedule.on_disruption(3, 2)
    assert granted(schedule, 5) == (2,)
    assert schedule.idle


def test_a_banned_slot_gets_no_turn() -> None:
    schedule = scheduler()
    schedule.on_cell(0, 1, 9)
    schedule.ban(1)
    schedule.on_reservations(1, lanes(1, 2))
    schedule.on_cell(1, 1, 5)
    assert granted(schedule, 3) == (2, NOBODY)


@given(
    events=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6), st.booleans()), max_size=60),
    sub_slots=st.integers(1, 4),
    window=st.integers(1, 4),
)
def test_every_turn_goes_to_somebody_who_claimed_it(
    events: list[tuple[int, int, bool]], sub_slots: int, window: int
) -> None:
    schedule = scheduler(sub_slots, window)
    claimed: set[int] = set()
    for round_, (slot, backlog, silent) in enumerate(events):
        if silent:
            schedule.on_silence(slot)
        else:
            schedule.on_cell(round_, slot, backlog)
            claimed.add(slot)
        owners = granted(schedule, round_ + window)
        assert len(owners) == sub_slots
        assert set(owners) <= claimed | {NOBODY}
        assert all(turns >= 0 for turns in schedule._owed.values())
        assert len(set(schedule._waiting)) == len(schedule._waiting)


def test_owners_and_lanes_are_bytes() -> None:
    assert decode_owners(encode_owners((3, NOBODY, 700))) == (3, NOBODY, 700)
    assert reserved_slots(lanes(0, 9, 127), 100) == [0, 9]
