"""Requests a second, by device."""

import pytest

from headtail_edge.rate_limit import Rate, RateLimits

RATE = Rate(per_s=10.0, burst=3)


def test_a_burst_is_let_through_and_then_one_waits_for_the_next_token() -> None:
    limits = RateLimits()
    assert [limits.take("cam", RATE, 5.0) for _ in range(3)] == [0.0] * 3
    assert limits.take("cam", RATE, 5.0) == pytest.approx(0.1)
    assert limits.take("cam", RATE, 5.06) == pytest.approx(0.04)
    assert limits.take("cam", RATE, 5.101) == 0.0


def test_a_refusal_costs_no_token() -> None:
    limits = RateLimits()
    for _ in range(100):
        limits.take("cam", RATE, 0.0)
    assert limits.take("cam", RATE, 0.1001) == 0.0


def test_devices_have_a_bucket_each_that_never_holds_more_than_a_burst() -> None:
    limits = RateLimits()
    for _ in range(4):
        limits.take("cam", RATE, 0.0)
    assert limits.take("other", RATE, 0.0) == 0.0
    assert [limits.take("cam", RATE, 1000.0) > 0 for _ in range(4)] == [False] * 3 + [True]


def test_over_a_long_time_the_rate_is_kept() -> None:
    limits = RateLimits()
    passed = sum(limits.take("cam", RATE, step * 0.001) == 0.0 for step in range(10_000))
    assert 99 <= passed <= 103


def test_buckets_do_not_pile_up() -> None:
    limits = RateLimits()
    for number in range(10_000):
        limits.take(f"cam-{number}", RATE, 0.0)
    assert repr(limits) == "<RateLimits of 4096 devices>"
