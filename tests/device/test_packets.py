"""Lost frames are told from the packets that the container holds."""

import itertools
from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from headtail_device.source.packets import PacketTimes, bridged


def replay(packets: list[float], decoded: list[float]) -> tuple[list[float], PacketTimes]:
    """Everything that is called lost, in order."""
    times = PacketTimes(iter(packets))
    lost = [early for shown in decoded for early in times.lost_before(shown)]
    return [*lost, *times.rest()], times


def test_nothing_is_lost_when_everything_is_decoded() -> None:
    assert replay([0, 40, 80], [0, 40, 80])[0] == []


def test_packets_in_decoding_order_are_sorted() -> None:
    assert replay([0, 160, 80, 40, 120], [0, 40, 80, 120, 160])[0] == []


def test_a_lost_frame_is_told_in_its_place() -> None:
    times = PacketTimes(iter([0.0, 160.0, 80.0, 40.0, 120.0]))
    assert times.lost_before(0) == []
    assert times.lost_before(80) == [40]
    assert times.lost_before(160) == [120]


def test_frames_lost_at_the_end_are_told_last() -> None:
    assert replay([0, 40, 80, 120], [0])[0] == [40, 80, 120]


def test_a_frame_that_comes_after_its_turn_is_known() -> None:
    times = PacketTimes(iter([0.0, 40.0, 80.0]))
    assert times.lost_before(80) == [0, 40]
    assert times.is_past(40)
    assert not times.is_past(80)


def test_the_comparison_is_given_up_when_times_do_not_match() -> None:
    lost, times = replay([0, 40, 80], [0, 41, 80])
    assert lost == []
    assert repr(times) == "<PacketTimes pending=0 usable=False>"


def test_the_look_ahead_is_bounded() -> None:
    read = []

    def recorded() -> Iterator[float]:
        for index in itertools.count():
            read.append(index)
            yield 40.0 * index

    times = PacketTimes(recorded())
    assert times.lost_before(1e9) == []
    assert not times.usable
    assert len(read) == 1016


def test_a_long_gap_does_not_hide_what_comes_after_it() -> None:
    packets = [0.0, *(0.001 * step for step in range(1, 101)), 40.0]
    assert len(replay(packets, [0.0, 40.0])[0]) == 100


def test_reading_goes_on_while_packets_without_a_frame_remain() -> None:
    times = PacketTimes(iter([0.0, 40.0, 80.0]))
    assert times.may_continue(0)
    times.lost_before(0)
    assert times.may_continue(1)
    assert times.may_continue(2)
    assert not times.may_continue(3)


def test_without_usable_times_a_few_failures_are_tried() -> None:
    times = PacketTimes(iter([]))
    times.lost_before(0)
    assert times.may_continue(8)
    assert not times.may_continue(9)


def endless(*times: float | None) -> Iterator[float | None]:
    yield from times
    yield from itertools.repeat(None)


def test_damaged_packets_between_others_get_times_between_theirs() -> None:
    found = list(bridged(endless(0.0, 80.0, 40.0, None, None, 120.0), announced=6))
    assert found == [0, 80, 40, 80.000001, 80.000002, 120]


def test_what_follows_the_last_packet_is_not_taken_for_damaged() -> None:
    assert list(bridged(endless(0.0, None), announced=30)) == [0]
    assert list(bridged(endless(), announced=0)) == []


def test_more_packets_than_announced_are_read() -> None:
    assert list(bridged(endless(0.0, 40.0, 80.0), announced=1)) == [0, 40, 80]


def test_a_gap_that_is_too_long_is_the_end() -> None:
    gap = [None] * 1001
    assert list(bridged(endless(0.0, *gap, 40.0), announced=10_000)) == [0]


@given(st.lists(st.booleans(), min_size=1, max_size=40), st.integers(0, 4))
def test_every_frame_is_either_decoded_or_lost(decodable: list[bool], reach: int) -> None:
    shown = [float(index) for index in range(len(decodable))]
    # Decoding order: groups of `reach + 1` with their last frame first, as B-frames need it.
    packets = []
    for start in range(0, len(shown), reach + 1):
        group = shown[start : start + reach + 1]
        packets += [group[-1], *group[:-1]]
    decoded = [time for time, good in zip(shown, decodable, strict=True) if good]
    lost, times = replay(packets, decoded)
    assert times.usable
    assert sorted(lost + decoded) == shown
