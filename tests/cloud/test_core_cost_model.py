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
        assert costs.segment_s(HERE, 1) == pytest.approx(costs.estimate(Work(items={HERE: 1})))
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


def texts_and_tails(work: Work) -> float:
    """Of an engine that reads weights for texts alone, and reads them faster for one token."""
    texts_s = 0.012 + 0.005 * (work.tokens > 1) + 0.0006 * work.prefill_tokens if work.tokens else 0
    texts_s += 0.002 * (work.decodes + work.first_tokens)
    return 0.0002 + texts_s + sum(0.0001 + 0.0002 * count for count in work.items.values() if count)


ONE, FOUR, TAIL = Work(decodes=1), Work(decodes=4), Work(items={HERE: 1})


def test_texts_and_tails_do_not_pay_for_each_other() -> None:
    """Brief iterations of tails between long ones of one or two decodes, each off by a tenth: what
    was not seen, four decodes or a prompt, is still estimated well."""
    costs, draw = CostModel(texts_and_tails), random.Random(4)
    for number in range(1500):
        work = TAIL if number % 3 else Work(decodes=draw.choice([1, 1, 1, 2]), items={HERE: 2})
        costs.observe(work, texts_and_tails(work) * draw.gauss(1.0, 0.1))
    for work in (ONE, FOUR, Work(prefill_tokens=32, first_tokens=1), TAIL):
        assert costs.estimate(work) == pytest.approx(texts_and_tails(work), rel=0.25), work


def test_a_slower_machine_is_slower_at_what_was_not_seen_too() -> None:
    costs, prompt = CostModel(texts_and_tails), Work(prefill_tokens=64, first_tokens=1)
    for factor in [1.0] * 50 + [1.5] * 100:
        costs.observe(FOUR, factor * texts_and_tails(FOUR))
    assert costs.estimate(FOUR) == pytest.approx(1.5 * texts_and_tails(FOUR), rel=0.05)
    assert costs.estimate(prompt) > 1.2 * texts_and_tails(prompt)


def test_a_price_of_zero_can_be_found_out() -> None:
    costs = CostModel(
        lambda work: texts_and_tails(work) - 0.002 * (work.decodes + work.first_tokens)
    )
    draw = random.Random(2)
    for _ in range(400):
        work = Work(decodes=draw.randrange(1, 8), prefill_tokens=draw.choice([0, 16]))
        costs.observe(work, texts_and_tails(work))
    assert costs.estimate(Work(decodes=6)) == pytest.approx(
        texts_and_tails(Work(decodes=6)), rel=0.1
    )


def test_the_margin_is_what_iterations_exceed_their_estimate_by() -> None:
    draw = random.Random(3)
    exact, noisy, wild = (CostModel(texts_and_tails) for _ in range(3))
    assert exact.margin == 1.0
    over = 0
    for number in range(600):
        took_s = texts_and_tails(FOUR)
        exact.observe(FOUR, took_s)
        wild.observe(FOUR, took_s * (0.1 if number % 2 else 4.0))
        sample_s = took_s * draw.gauss(1.0, 0.1)
        over += number > 100 and sample_s > noisy.margin * noisy.estimate(FOUR)
        noisy.observe(FOUR, sample_s)
        noisy.observe(TAIL, texts_and_tails(TAIL) * draw.uniform(0.5, 3.0))
    assert exact.margin == pytest.approx(1.0, abs=1e-6)
    assert 1.2 < noisy.margin < 1.5, "brief iterations say nothing of it"
    assert over <= 5
    assert wild.margin == 2.0
