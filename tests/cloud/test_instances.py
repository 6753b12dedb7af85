"""How many instances there should be, and when: windows, panic, zero, histogram, announcements."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headtail_cloud.core.request import Segment
from headtail_cloud.instances.autoscaler import Autoscaler, ScalingOptions
from headtail_cloud.instances.demand import Demand
from headtail_cloud.instances.idleness import IdleTimes
from headtail_cloud.instances.ladder import Ladder, Tier
from headtail_cloud.instances.prewarm import Prewarm

HEAD, TAIL = Segment("yolo@1", "head"), Segment("yolo@1", "tail")


def test_demand_is_averaged_over_time_not_over_changes() -> None:
    demand = Demand(window_s=60, now=0)
    demand.changed(4, 10)
    demand.changed(0, 20)
    assert demand.current == 0
    assert demand.average(20, 20) == pytest.approx(2)
    assert demand.average(10, 20) == pytest.approx(4)
    assert demand.average(60, 60) == pytest.approx(40 / 60)
    assert demand.average(10, 100) == 0


@given(
    changes=st.lists(st.tuples(st.floats(0.01, 30), st.integers(0, 9)), max_size=30),
    window_s=st.floats(1, 60),
)
def test_an_average_is_what_sampling_would_find(
    changes: list[tuple[float, int]], window_s: float
) -> None:
    demand, now, values = Demand(window_s=60, now=0), 0.0, [(0.0, 0)]
    for after, value in changes:
        now += after
        demand.changed(value, now)
        values.append((now, value))
    now += 1
    begin = max(now - window_s, 0.0)
    edges = [*(at for at, _ in values[1:]), now]
    area = sum(
        value * max(0.0, min(end, now) - max(at, begin))
        for (at, value), end in zip(values, edges, strict=True)
    )
    assert demand.average(window_s, now) == pytest.approx(area / (now - begin), abs=1e-9)


def scaled(seconds: int, in_progress: int, *, running: int = 1, most: int = 10) -> int:
    scaler = Autoscaler(ScalingOptions(most=most, target=4.0, stable_s=60))
    scaler.observe({TAIL: in_progress}, 0)
    return scaler.desired(running, seconds)


def test_steady_demand_decides() -> None:
    assert scaled(120, 1) == 1
    assert scaled(120, 4) == 1
    assert scaled(120, 5, running=2) == 2
    assert scaled(120, 400, running=10) == 10, "no more than the most"


def test_a_burst_panics_and_nothing_is_taken_away_meanwhile() -> None:
    scaler = Autoscaler(ScalingOptions(most=10, target=4.0, stable_s=60))
    scaler.observe({TAIL: 2}, 0)
    assert scaler.desired(1, 100) == 1
    scaler.observe({TAIL: 32}, 100)
    assert scaler.desired(1, 101) == 2, "the short window sees it"
    assert scaler.desired(2, 106) == 8
    scaler.observe({TAIL: 0}, 106)
    assert scaler.desired(8, 112) == 8, "still in a panic"
    assert scaler.desired(8, 180) == 4, "then down, but by half at most"
    assert scaler.desired(4, 180) == 2
    assert scaler.desired(1, 180) == 0


def test_segments_of_a_group_count_together_and_go_together() -> None:
    scaler = Autoscaler(ScalingOptions(most=10, target=4.0, stable_s=60))
    scaler.observe({HEAD: 3, TAIL: 3}, 0)
    assert scaler.desired(1, 100) == 2
    scaler.observe({HEAD: 0, TAIL: 1}, 100)
    assert scaler.desired(1, 1000) == 1, "one is in use, so both stay"
    scaler.observe({TAIL: 0}, 1000)
    assert scaler.idle
    assert scaler.desired(1, 1061) == 0


def test_the_least_is_kept() -> None:
    scaler = Autoscaler(ScalingOptions(least=2, most=3))
    assert scaler.desired(0, 0) == scaler.desired(2, 10_000) == 2
    for bad in ({"least": 3, "most": 2}, {"most": 0}, {"target": 0.0}, {"stable_s": 0.0}):
        with pytest.raises(ValueError, match=r"instances|positive"):
            ScalingOptions(**bad)


def test_regular_idle_times_give_a_window_around_them() -> None:
    times = IdleTimes(bin_s=1.0, bins=200)
    for second in [60] * 50 + [61] * 40 + [70]:
        times.add(second + 0.5)
    window = times.window()
    assert window is not None
    assert 50 < window.from_s < 60
    assert 62 < window.until_s < 80


def test_a_histogram_says_nothing_when_it_has_no_shape() -> None:
    times = IdleTimes(bin_s=1.0, bins=100)
    assert times.window() is None, "empty"
    for _ in range(7):
        times.add(60.0)
    assert times.window() is None, "too few"
    for second in range(100):
        times.add(second + 0.5)
    assert times.window() is None, "flat"
    far = IdleTimes(bin_s=1.0, bins=100)
    for _ in range(20):
        far.add(5.0)
        far.add(5000.0)
        far.add(6000.0)
    assert far.window() is None, "most are beyond its end"


def test_without_a_histogram_it_stays_for_a_fixed_time() -> None:
    warm = Prewarm(keep_alive_s=30)
    assert not warm.wanted(1.0, 0)
    warm.used(0)
    warm.idle(10)
    assert warm.wanted(1.0, 39)
    assert not warm.wanted(1.0, 41)
    assert warm.next_timer(1.0, 20) == 40


def test_a_regular_caller_finds_it_warm_and_it_is_gone_in_between() -> None:
    warm, now = Prewarm(keep_alive_s=300), 0.0
    for _ in range(20):
        warm.used(now)
        warm.idle(now + 1)
        now += 121
    warm.used(now)
    warm.idle(now)
    assert not warm.wanted(2.0, now + 60), "the next one is far off"
    due = now + 120.5
    assert warm.wanted(2.0, due)
    edge = warm.next_timer(2.0, now + 60)
    assert edge is not None
    assert now + 60 < edge < due - 2.0, "in time to start"
    assert not warm.wanted(2.0, now + 200)


def test_an_announcement_starts_it_in_time_and_lapses() -> None:
    warm = Prewarm(keep_alive_s=0)
    warm.announced(10.0, 100.0)
    assert not warm.wanted(2.0, 105)
    assert warm.next_timer(2.0, 100) == 107
    assert warm.wanted(2.0, 107)
    assert warm.wanted(2.0, 112)
    assert not warm.wanted(2.0, 115)
    warm.announced(0.0, 200.0)
    warm.announced(60.0, 200.0)
    assert warm.wanted(2.0, 200)
    assert warm.wanted(2.0, 262)


def test_starts_are_measured_by_the_tier_they_begin_from() -> None:
    ladder = Ladder(Tier.RESIDENT)
    guess = ladder.start_s
    ladder.started(Tier.ON_DISK, 3.0)
    assert ladder.start_s == guess
    for _ in range(30):
        ladder.started(Tier.RESIDENT, 0.006)
    assert ladder.start_s == pytest.approx(0.006)
    ladder.tier = Tier.ON_DISK
    assert ladder.start_s == pytest.approx(3.0)
