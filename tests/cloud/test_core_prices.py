"""The parts of an engine's estimate are found in it, and make it up again."""

import pytest

from headtail_cloud.core.prices import SegmentPrices, TextPrices, segment_prices, text_prices
from headtail_cloud.core.request import Segment
from headtail_cloud.core.task import PrefillChunk
from headtail_cloud.core.work import Work, chunk_work

SEGMENT = Segment("m@1", "a")
TEXTS = TextPrices(
    run_s=0.01, several_s=0.005, prefill_s=0.001, first_s=0.003, decode_s=0.002, context_s=1e-6
)
TAILS = SegmentPrices(run_s=0.004, item_s=0.0005)


def estimate(work: Work) -> float:
    """Of an engine that has all parts."""
    return 0.0002 + TEXTS.of(work) + TAILS.of(work.items.get(SEGMENT, 0))


def test_the_parts_of_an_estimate() -> None:
    found = text_prices(estimate)
    for name in TextPrices.__struct_fields__:
        assert getattr(found, name) == pytest.approx(getattr(TEXTS, name)), name
    tails = segment_prices(estimate, SEGMENT)
    assert (tails.run_s, tails.item_s) == pytest.approx((TAILS.run_s, TAILS.item_s))


def test_an_engine_of_tails_has_no_price_for_texts() -> None:
    found = text_prices(lambda work: 0.1 + TAILS.of(work.items.get(SEGMENT, 0)))
    assert {getattr(found, name) for name in TextPrices.__struct_fields__} == {0.0}


def test_what_is_not_there_costs_nothing() -> None:
    assert TEXTS.of(Work(items={SEGMENT: 3})) == 0.0
    assert TAILS.of(0) == 0.0


def test_a_single_token_is_cheaper_than_several() -> None:
    two_s, one_s = (TEXTS.of(Work(decodes=count)) for count in (2, 1))
    assert two_s - one_s == pytest.approx(TEXTS.several_s + TEXTS.decode_s)


def test_a_prompts_last_chunk_gives_a_token() -> None:
    chunk = PrefillChunk(
        request_id="a", model="m", tokens=(1, 2, 3), start=4, blocks=(0, 1), last=True
    )
    assert chunk.work == chunk_work(4, 3, last=True)
    assert chunk.work.first_tokens == 1
    assert chunk.work.tokens == 3
    assert chunk_work(4, 3, last=False).first_tokens == 0
    assert chunk.work.plus(chunk.work).first_tokens == 2
