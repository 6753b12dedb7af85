"""What is kept for tails that may come, and what that leaves to texts."""

import math

import pytest

from cloud_doubles import SEGMENT
from headtail_cloud.core.cost_model import CostModel
from headtail_cloud.core.fairness import FairShare
from headtail_cloud.core.kv_cache import KvCache
from headtail_cloud.core.options import SchedulerOptions
from headtail_cloud.core.protection import Pressure, Protection
from headtail_cloud.core.resources import Resources
from headtail_cloud.core.work import Work
from headtail_cloud.engines.modelled import Prices

CHAIN = (SEGMENT,)
PRICES = Prices(step_s=0.001, run_s=0.002, item_s=0.0005)
BATCH_S = 0.001 + 0.002 + 4 * 0.0005


def resources_of(prices: Prices = PRICES) -> Resources:
    return Resources(
        max_batch=4,
        cache=KvCache(blocks=64, block_tokens=4, spare=0.0),
        shares=FairShare(),
        costs=CostModel(prices.of),
        options=SchedulerOptions(protected_for_s=10.0, headroom=0.9),
    )


def test_nothing_is_kept_where_no_tail_came() -> None:
    protection = Protection(resources_of())
    protection.ran(Work(decodes=3), 1.0)
    assert protection.slack_s(1.0) == math.inf
    assert protection.pressure(1.0) == Pressure()


def test_an_iteration_leaves_a_tail_its_batch() -> None:
    protection = Protection(resources_of())
    protection.saw(CHAIN, 0.05, 0.0)
    assert protection.slack_s(1.0) == pytest.approx(0.05 * 0.9 - BATCH_S)
    assert protection.slack_s(10.1) == math.inf, "none came for so long"


def test_the_tightest_deadline_counts_until_it_is_old() -> None:
    protection = Protection(resources_of())
    protection.saw(CHAIN, 0.05, 0.0)
    for at in range(1, 30):
        protection.saw(CHAIN, 0.5, float(at))
        expected_s = 0.05 if at <= 21 else 0.5
        assert protection.slack_s(float(at)) == pytest.approx(expected_s * 0.9 - BATCH_S)


def test_it_follows_what_tails_cost_now() -> None:
    resources = resources_of()
    protection = Protection(resources)
    protection.saw(CHAIN, 0.05, 0.0)
    before_s = protection.slack_s(0.0)
    for _ in range(50):
        resources.costs.observe(Work(items={SEGMENT: 4}), 0.015)
    slow_s = protection.slack_s(0.0)
    for _ in range(300):
        resources.costs.observe(Work(items={SEGMENT: 4}), BATCH_S)
    assert slow_s < before_s - 0.004
    assert protection.slack_s(0.0) >= before_s - 1e-4


def test_the_share_that_tails_take() -> None:
    """A batch of 5 ms every 50 ms, beside decodes that are not theirs."""
    protection = Protection(resources_of(Prices(step_s=0.0, run_s=0.003, item_s=0.0005)))
    for number in range(400):
        now = 0.05 * number
        protection.saw(CHAIN, 0.05, now)
        protection.ran(Work(decodes=2, items={SEGMENT: 4}), now)
        if number > 40:
            assert protection.pressure(now).share == pytest.approx(0.1, rel=0.15)
    assert protection.pressure(now + 5.0).share < 0.07


def test_an_uncertain_estimate_makes_iterations_shorter() -> None:
    resources = resources_of()
    protection = Protection(resources)
    protection.saw(CHAIN, 0.05, 0.0)
    protection.ran(Work(items={SEGMENT: 1}), 0.0)
    certain_s = protection.pressure(0.0).longest_s
    for number in range(200):
        took_s = 0.001 + 0.0005 * (10 if number % 2 else 4)
        resources.costs.observe(Work(decodes=8), took_s)
    assert resources.margin > 1.3
    assert protection.pressure(0.0).longest_s < certain_s
