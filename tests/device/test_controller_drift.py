"""Factors between what was measured and what is."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headtail_device.controller.drift import Drift


def drift(*, half_life_s: float = 1e9, prior: float = 0.0) -> Drift:
    return Drift(half_life_s=half_life_s, least_gain=0.05, prior=prior)


def follow(subject: Drift, truth: float, times: int, key: str = "a") -> None:
    for _ in range(times):
        subject.observe(key, truth / subject.factor(key, 0.0), 0.0)


def test_at_first_what_was_measured_holds() -> None:
    assert drift().factor("a", 5.0) == 1.0


@pytest.mark.parametrize("truth", [0.05, 0.5, 3.0, 20.0])
def test_a_change_is_followed_within_a_few_frames(truth: float) -> None:
    subject = drift(prior=5)
    follow(subject, 1.0, 20)
    follow(subject, truth, 14)
    assert subject.factor("a", 0.0) == pytest.approx(truth, rel=0.15)


def test_noise_around_the_mean_moves_it_little() -> None:
    subject, draw = drift(prior=20), random.Random(3)
    factors = []
    for _ in range(400):
        subject.observe("a", draw.uniform(0.5, 1.5) / subject.factor("a", 0.0), 0.0)
        factors.append(subject.factor("a", 0.0))
    assert all(0.65 < factor < 1.45 for factor in factors[20:])


def test_keys_share_what_they_have_in_common() -> None:
    subject = drift()
    follow(subject, 4.0, 10)
    assert subject.factor("never seen", 0.0) > 2.5


def test_each_key_has_its_own_part() -> None:
    subject = drift(prior=5)
    for _ in range(300):
        for key, truth in (("a", 2.0), ("b", 0.5)):
            subject.observe(key, truth / subject.factor(key, 0.0), 0.0)
    assert subject.factor("a", 0.0) > 1.5 > 0.8 > subject.factor("b", 0.0)


def test_without_news_it_is_forgotten_by_half() -> None:
    subject = drift(half_life_s=10.0)
    follow(subject, 4.0, 30)
    assert subject.factor("a", 10.0) == pytest.approx(2.0, rel=0.1)
    assert subject.factor("a", 1000.0) == pytest.approx(1.0)


@given(st.lists(st.floats(0, 1e9), max_size=60))
@settings(max_examples=40, deadline=None)
def test_whatever_is_observed_the_factor_stays_finite(ratios: list[float]) -> None:
    subject = drift()
    for at, ratio in enumerate(ratios):
        subject.observe("a", ratio, float(at))
    assert 0 < subject.factor("a", 100.0) < 1e9
    assert "observations" in repr(subject)
