"""The shaper on a clock that is turned by hand: every time is exact."""

import random
from collections import defaultdict
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headtail_fabric.clock import FakeClock
from headtail_fabric.emulator import (
    Direction,
    LinkConditions,
    LinkTrace,
    Outage,
    Shaper,
    TraceStep,
)
from headtail_fabric.emulator.shaper import QUEUE_S, Arrival, Signal
from headtail_fabric.emulator.token_bucket import TokenBucket

KBIT_8 = LinkConditions(up_bits_s=8000, down_bits_s=8000, burst_bytes=0)
"""1000 bytes a second, nothing at once, no delay."""
KBIT_80 = LinkConditions(up_bits_s=80_000, down_bits_s=80_000, burst_bytes=0)
STALLED = LinkConditions(outage=Outage.STALL)


def seeded(seed: int) -> Callable[[], float]:
    return random.Random(seed).random


def shaper(link: LinkConditions | LinkTrace, *, now: float = 0.0, seed: int = 1) -> Shaper:
    trace = link if isinstance(link, LinkTrace) else LinkTrace.constant(link)
    return Shaper(trace, Direction.UP, draw=seeded(seed), now=now)


def steps(*pairs: tuple[float, LinkConditions], repeats: bool = False) -> LinkTrace:
    return LinkTrace(steps=tuple(TraceStep(s, link) for s, link in pairs), repeats=repeats)


def arrivals(link: Shaper) -> list[tuple[float, int, bytes | Signal]]:
    """All that is on the way, each with its time to the nanosecond."""
    seen: list[tuple[float, int, bytes | Signal]] = []
    while link.next_arrival_at < float("inf"):
        at = link.next_arrival_at
        for arrival in link.arrived(at):
            content = arrival.content
            plain = content if isinstance(content, Signal) else bytes(content)
            seen.append((round(at, 9), arrival.flow, plain))
    return seen


def times(link: Shaper) -> list[float]:
    return [at for at, _, _ in arrivals(link)]


# The bucket


def test_bytes_are_served_at_the_rate() -> None:
    bucket = TokenBucket(LinkTrace.constant(KBIT_8), Direction.UP)
    assert bucket.take(500, 0.0) == pytest.approx(0.5)
    assert bucket.take(500, 0.1) == pytest.approx(1.0)
    assert bucket.take(100, 5.0) == pytest.approx(5.1)
    assert bucket.free_at_s == pytest.approx(5.1)


def test_a_burst_passes_at_once_and_has_to_be_earned_again() -> None:
    link = LinkConditions(up_bits_s=8000, burst_bytes=300)
    bucket = TokenBucket(LinkTrace.constant(link), Direction.UP)
    assert bucket.take(300, 0.0) == 0.0
    assert bucket.take(100, 0.0) == pytest.approx(0.1)
    assert bucket.take(200, 0.2) == pytest.approx(0.3)  # 100 earned since 0.1
    assert bucket.take(400, 100.0) == pytest.approx(100.1)  # never more than the burst


def test_a_rate_that_changes_in_the_middle() -> None:
    bucket = TokenBucket(steps((1.0, KBIT_8), (9.0, KBIT_80)), Direction.UP)
    assert bucket.take(2000, 0.5) == pytest.approx(0.5 + 0.5 + 0.15)


def test_an_outage_in_the_middle() -> None:
    bucket = TokenBucket(steps((1.0, KBIT_8), (3.0, STALLED), (9.0, KBIT_8)), Direction.UP)
    assert bucket.take(1500, 0.0) == pytest.approx(4.5)


def test_an_outage_for_good() -> None:
    bucket = TokenBucket(steps((1.0, KBIT_8), (1.0, STALLED)), Direction.UP)
    assert bucket.take(1000, 0.0) == pytest.approx(1.0)
    assert bucket.take(1, 0.0) == float("inf")
    bucket.forgive(2.0)
    assert bucket.free_at_s == 2.0


def test_tokens_survive_an_outage_and_none_come_in_it() -> None:
    link = LinkConditions(up_bits_s=8000, burst_bytes=100)
    bucket = TokenBucket(steps((1.0, link), (1.0, STALLED), repeats=True), Direction.UP)
    assert bucket.take(100, 0.95) == pytest.approx(0.95)
    assert bucket.take(30, 1.5) == pytest.approx(2.0)  # there are tokens, but no link
    assert bucket.take(100, 1.5) == pytest.approx(2.08)


def test_no_limit_means_at_once() -> None:
    bucket = TokenBucket(steps((1.0, STALLED), (9.0, LinkConditions())), Direction.UP)
    assert bucket.take(10**9, 0.0) == 1.0
    assert bucket.take(10**9, 5.0) == 5.0


@settings(max_examples=60)
@given(
    sizes=st.lists(st.integers(0, 5000), min_size=1, max_size=40),
    gaps=st.lists(st.floats(0.0, 1.0), min_size=40, max_size=40),
    burst=st.integers(0, 4000),
)
def test_no_interval_ever_sees_more_than_its_rate_and_a_burst(
    sizes: list[int], gaps: list[float], burst: int
) -> None:
    link = LinkConditions(up_bits_s=8000, burst_bytes=burst)
    bucket = TokenBucket(LinkTrace.constant(link), Direction.UP)
    now, served = 0.0, []
    for size, gap in zip(sizes, gaps, strict=False):
        now += gap
        served.append((bucket.take(size, now), size))
    for first in range(len(served)):
        for last in range(first, len(served)):
            passed = sum(size for _, size in served[first + 1 : last + 1])
            assert passed <= burst + 1000 * (served[last][0] - served[first][0]) + 1e-6


# Delay


def test_propagation_is_half_a_round_trip_each_way() -> None:
    link = shaper(LinkConditions(rtt_s=0.03), now=100.0)
    link.send(1, b"abc", 100.5)
    assert list(link.arrived(100.514)) == []
    assert link.next_arrival_at == pytest.approx(100.515)
    assert list(link.arrived(100.6)) == [Arrival(1, memoryview(b"abc"))]
    assert link.next_arrival_at == float("inf")


def test_a_transfer_takes_its_size_by_the_rate_and_the_delay() -> None:
    link = shaper(LinkConditions(up_bits_s=2e6, rtt_s=0.03, burst_bytes=0))
    link.send(1, bytes(250_000), 0.0)
    assert times(link)[-1] == pytest.approx(1.0 + 0.015)


def test_pieces_arrive_as_they_are_served() -> None:
    link = shaper(KBIT_8)
    link.send(1, bytes(3000), 0.0)
    assert times(link) == pytest.approx([1.448, 2.896, 3.0])


def test_fast_links_move_larger_pieces() -> None:
    link = shaper(LinkConditions(up_bits_s=80e6, burst_bytes=0))
    link.send(1, bytes(100_000), 0.0)
    assert times(link) == pytest.approx([0.002 * n for n in range(1, 6)])


def test_jitter_is_bounded_repeatable_and_keeps_the_order() -> None:
    def run(seed: int) -> list[tuple[float, int, bytes | Signal]]:
        link = shaper(LinkConditions(rtt_s=0.1, jitter_s=0.04), seed=seed)
        for number in range(200):
            link.send(1, bytes([number]), number * 0.01)
        return arrivals(link)

    seen = run(seed=5)
    assert b"".join(content for _, _, content in seen if isinstance(content, bytes)) == bytes(
        range(200)
    )
    delays = [at - number * 0.01 for number, (at, _, _) in enumerate(seen)]
    assert all(0.03 - 1e-9 <= delay <= 0.07 + 1e-9 for delay in delays)
    assert max(delays) - min(delays) > 0.02
    assert run(seed=5) == seen
    assert run(seed=6) != seen


# Losses


def test_without_loss_nothing_stalls() -> None:
    link = shaper(LinkConditions(rtt_s=0.03))
    for number in range(1000):
        link.send(1, b"x", number * 0.001)
    assert link.stalls == 0


def test_a_loss_stalls_its_connection_alone() -> None:
    draws = iter([0.0, 0.9])  # the first piece is lost, its repetition is not
    trace = LinkTrace.constant(LinkConditions(rtt_s=0.1, loss=0.1))
    link = Shaper(trace, Direction.UP, draw=lambda: next(draws, 0.9), now=0.0)
    link.send(1, b"lost", 0.0)
    link.send(1, b"behind", 0.01)
    link.send(2, b"other", 0.01)
    assert arrivals(link) == [
        (0.06, 2, b"other"),
        (0.25, 1, b"lost"),
        (0.25, 1, b"behind"),
    ]
    assert link.stalls == 1


def test_losses_are_as_frequent_as_asked_for() -> None:
    link = shaper(LinkConditions(loss=0.02), seed=3)
    for number in range(10_000):
        link.send(number, b"x", 0.0)
    assert link.stalls == pytest.approx(200, rel=0.25)


def test_a_larger_piece_is_lost_if_any_of_its_packets_is() -> None:
    link = shaper(LinkConditions(loss=0.01), seed=4)
    for number in range(2000):
        link.send(number, bytes(10 * 1448), 0.0)
    assert link.stalls == pytest.approx(2000 * (1 - 0.99**10), rel=0.2)


# Sharing and room


def test_connections_share_the_rate_first_come_first_served() -> None:
    link = shaper(KBIT_8)
    link.send(1, bytes(1000), 0.0)
    link.send(2, bytes(1000), 0.0)
    link.send(1, Signal.END, 0.0)
    assert arrivals(link) == [
        (1.0, 1, bytes(1000)),
        (2.0, 2, bytes(1000)),
        (2.0, 1, Signal.END),
    ]


def test_there_is_room_while_less_than_the_queue_waits() -> None:
    link = shaper(LinkConditions(up_bits_s=8e6, burst_bytes=0), now=10.0)
    assert link.room_at <= 10.0
    assert link.turn_bytes(10.0) == 10_000
    link.send(1, bytes(10_000), 10.0)
    assert link.room_at <= 10.0
    link.send(1, bytes(20_000), 10.0)
    assert link.room_at == pytest.approx(10.03 - QUEUE_S)


def test_a_turn_is_a_packet_at_least_and_64_kib_at_most() -> None:
    assert shaper(KBIT_8).turn_bytes(0.0) == 1448
    assert shaper(LinkConditions()).turn_bytes(0.0) == 65_536
    assert shaper(STALLED).turn_bytes(0.0) == 1448


def test_in_an_outage_there_is_room_again_when_it_is_over() -> None:
    link = shaper(steps((1.0, KBIT_8), (2.0, STALLED), (5.0, KBIT_8)))
    link.send(1, bytes(100), 1.5)
    assert link.room_at == pytest.approx(3.1 - QUEUE_S)
    assert times(link) == pytest.approx([3.1])


def test_in_an_outage_for_good_nothing_arrives() -> None:
    link = shaper(steps((1.0, KBIT_8), (2.0, STALLED)))
    link.send(1, bytes(100), 1.5)
    link.send(1, Signal.END, 1.5)
    assert link.room_at == float("inf")
    assert link.next_arrival_at == float("inf")
    assert list(link.arrived(1e9)) == []


def test_a_cut_forgets_everything() -> None:
    link = shaper(KBIT_8)
    link.send(1, bytes(5000), 0.0)
    link.clear(1.0)
    assert repr(link) == "Shaper(up, on_the_way=0)"
    link.send(2, bytes(100), 1.0)
    assert times(link) == pytest.approx([1.1])


def test_a_connection_number_used_again_waits_for_nobody() -> None:
    draws = iter([0.0, 0.9])
    trace = LinkTrace.constant(LinkConditions(rtt_s=1.0, loss=0.1))
    link = Shaper(trace, Direction.UP, draw=lambda: next(draws, 0.9), now=0.0)
    link.send(1, b"lost", 0.0)
    link.forget(1)
    link.send(1, b"new", 0.0)
    assert link.next_arrival_at == pytest.approx(0.5)


# All together


@settings(max_examples=60)
@given(data=st.data())
def test_every_stream_comes_out_whole_in_order_and_never_too_early(data: st.DataObject) -> None:
    up = st.builds(
        LinkConditions,
        up_bits_s=st.none() | st.sampled_from([10e3, 1e6, 50e6]),
        rtt_s=st.sampled_from([0.02, 0.1]),
        jitter_s=st.sampled_from([0.0, 0.02]),
        loss=st.sampled_from([0.0, 0.1, 0.5]),
        burst_bytes=st.sampled_from([0, 1448, 20_000]),
    )
    first = data.draw(up)
    others = data.draw(st.lists(up | st.just(STALLED), max_size=3))
    trace = steps(*((0.5, link) for link in (first, *others)), repeats=True)
    clock = FakeClock(50.0)
    link = shaper(trace, now=clock.now(), seed=data.draw(st.integers(0, 1000)))
    sent: dict[int, bytes] = defaultdict(bytes)
    got: dict[int, bytes] = defaultdict(bytes)
    least_delay_s = min(step.conditions.delay_s(0.0) for step in trace.steps)

    def collect() -> None:
        for arrival in link.arrived(clock.now()):
            assert isinstance(arrival.content, memoryview)
            got[arrival.flow] += arrival.content
            assert sent[arrival.flow].startswith(got[arrival.flow])

    for number in range(data.draw(st.integers(1, 20))):
        flow = data.draw(st.integers(1, 3))
        content = random.Random(number).randbytes(data.draw(st.integers(1, 8000)))
        link.send(flow, content, clock.now())
        if not any(step.conditions.outage for step in trace.steps):
            assert link.next_arrival_at >= 50.0 + least_delay_s - 1e-9
        sent[flow] += content
        clock.advance(data.draw(st.floats(0.0, 0.3)))
        collect()
    while link.next_arrival_at < float("inf"):
        clock.advance(max(0.0, link.next_arrival_at - clock.now()))
        collect()
    assert got == sent
