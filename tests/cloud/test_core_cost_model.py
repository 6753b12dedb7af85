import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headtail_cloud.core.cost_model import CostModel
from headtail_cloud.core.request import Segment
from headtail_cloud.core.work import Work
from headtail_cloud.engines.modelled import Prices

HERE, THERE = Segment("m@1", "a"), Segment("m@1", "b")
WORK = Work(prefill_tokens=64, decodes=4, context_tokens=3000, items={HERE: 3, THERE: 1})


def some_work(draw: random.Random) -> Work:
    return Work(
        prefill_tokens=draw.choice([0, 16, 128]),
        decodes=draw.randrange(9),
        context_tokens=draw.randrange(4000),
        items={s: n for s in (HERE, THERE) if (n := draw.randrange(6))},
    )


def test_begins_with_what_the_engine_expects() -> None:
    prices = Prices(context_s=1e-6)
    assert CostModel(prices.of).estimate(WORK) == pytest.approx(prices.of(WORK))


def test_learns_what_things_take() -> None:
    real = Prices(step_s=0.004, prefill_s=0.002, decode_s=0.003, run_s=0.01, item_s=0.002)
    costs, draw = CostModel(Prices(context_s=1e-7).of), random.Random(1)
    for _ in range(300):
        work = some_work(draw)
        costs.observe(work, real.of(work) * draw.uniform(0.95, 1.05))
    assert costs.estimate(WORK) == pytest.approx(real.of(WORK), rel=0.1)


def test_follows_an_engine_that_becomes_slow() -> None:
    costs, work = CostModel(Prices().of), Work(items={HERE: 4})
    for seconds in [0.01] * 50 + [0.04] * 50:
        costs.observe(work, seconds)
    assert costs.estimate(work) == pytest.approx(0.04, rel=0.1)


def test_what_was_not_seen_keeps_its_estimate() -> None:
    costs, decode = CostModel(Prices(step_s=0).of), Work(decodes=1)
    before = costs.estimate(decode)
    for _ in range(200):
        costs.observe(Work(items={HERE: 2}), 0.5)
    assert costs.estimate(decode) < 100 * before


def test_an_item_by_itself_is_estimated_alike() -> None:
    costs = CostModel(Prices().of)
    for _ in range(3):
        assert costs.item_s(HERE) == pytest.approx(costs.estimate(Work(items={HERE: 1})))
        costs.observe(Work(items={HERE: 3}), 0.02)


def test_shows_its_coefficients() -> None:
    costs = CostModel(Prices(step_s=0.001).of)
    costs.estimate(Work(items={HERE: 1}))
    assert "step 1 ms" in repr(costs)
    assert "m@1#a run 1.5 ms" in repr(costs)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.lists(st.floats(0, 10), max_size=30))
def test_more_work_never_seems_less(seed: int, times_s: list[float]) -> None:
    costs, draw = CostModel(Prices().of), random.Random(seed)
    for seconds in times_s:
        costs.observe(some_work(draw), seconds)
    less = some_work(draw)
    more = less.plus(some_work(draw))
    assert 0 <= costs.estimate(less) <= costs.estimate(more) < float("inf")
