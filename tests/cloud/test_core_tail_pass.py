"""When waiting tails go by themselves, and what texts get beside them."""

from dataclasses import dataclass
from itertools import pairwise

import msgspec

from cloud_doubles import SEGMENT, Desk, tail, text
from headtail_cloud.core import tail_pass
from headtail_cloud.core.cost_model import CostModel
from headtail_cloud.core.engine import Capacity
from headtail_cloud.core.fairness import FairShare
from headtail_cloud.core.job import TailJob, TextJob
from headtail_cloud.core.kv_cache import KvCache
from headtail_cloud.core.options import SchedulerOptions
from headtail_cloud.core.prices import SegmentPrices, TextPrices
from headtail_cloud.core.resources import Resources
from headtail_cloud.core.task import TailItem
from headtail_cloud.core.work import Work
from headtail_cloud.engines.modelled import Prices

TEXTS = TextPrices(
    run_s=0.012, several_s=0.0, prefill_s=0.0006, first_s=0.002, decode_s=0.002, context_s=0.0
)
TAILS = SegmentPrices(run_s=0.0002, item_s=0.0002)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighty(Prices):
    """Of an engine that has a language model's weights to read where there is a text."""

    texts: TextPrices = TEXTS

    def of(self, work: Work) -> float:
        return 0.001 + self.texts.of(work) + TAILS.of(work.items.get(SEGMENT, 0))


RESOURCES = Resources(
    max_batch=16,
    cache=KvCache(blocks=64, block_tokens=4, spare=0.0),
    shares=FairShare(),
    costs=CostModel(Weighty().of),
    options=SchedulerOptions(),
)


def worth_it(tails: int, prompt: int, together_s: float, full_s: float = 0.035) -> bool:
    waiting = [TailJob(tail(n), (SEGMENT,), number=n, now=0.0) for n in range(tails)]
    texts = [
        TextJob(text(n, range(prompt)), 4, number=n, now=0.0, block_tokens=4)
        for n in range(2 if prompt else 0)
    ]
    return tail_pass.is_worth_it(
        waiting, texts, together_s=together_s, full_s=full_s, resources=RESOURCES
    )


def test_where_they_leave_little_of_an_iteration() -> None:
    """15 ms, of which 13 are gone before the first token; after them more than half are left."""
    assert worth_it(3, 60, together_s=0.015)


def test_not_where_they_leave_nearly_all_of_it() -> None:
    assert not worth_it(3, 60, together_s=0.0349)


def test_not_where_all_there_is_to_do_fits_beside_them() -> None:
    assert not worth_it(3, 2, together_s=0.022)


def test_not_without_both() -> None:
    assert not worth_it(0, 60, together_s=0.015)
    assert not worth_it(3, 0, together_s=0.015)


def test_not_where_something_else_is_as_tight() -> None:
    assert not worth_it(3, 60, together_s=0.015, full_s=0.015)


def desk_of(texts: TextPrices = TEXTS) -> Desk:
    capacity = Capacity(max_batch=16, blocks=400, block_tokens=4)
    return Desk(capacity=capacity, prices=Weighty(texts=texts))


def test_texts_get_long_iterations_beside_tails_that_are_all_in_time() -> None:
    """Tails every 10 ms, six texts at once: decodes go four and more at a time."""
    desk = desk_of()
    for number in range(100):
        desk.arrive(0.01 * number, tail(number, deadline_s=0.05, tenant="tails"))
    for number in range(6):
        desk.arrive(0.005, text(number, range(8), max_tokens=30, ttft_s=1.0, tbt_s=0.1))
    desk.run()
    assert all(finish.on_time for finish in desk.finished.values())
    assert len(desk.finished) == 106
    sizes = [
        sum(not isinstance(task, TailItem) for task in step.tasks)
        for step in desk.steps
        if not all(isinstance(task, TailItem) for task in step.tasks)
    ]
    assert sum(sizes) / len(sizes) > 4


def test_decodes_that_are_ahead_of_their_promise_leave_room_for_a_prompt() -> None:
    """Five texts fill every iteration if they may, and say a token each 39 ms where 100 are
    promised. The sixth would wait until they end, after 1.5 s."""
    desk = desk_of(msgspec.structs.replace(TEXTS, decode_s=0.005))
    for number in range(250):
        desk.arrive(0.01 * number, tail(number, deadline_s=0.05, tenant="tails"))
    for number in range(5):
        first = 0.02 + 0.02 * number
        desk.arrive(first, text(number, [number], max_tokens=36, ttft_s=0.9, tbt_s=0.1))
    desk.arrive(0.3, text(9, range(40, 80), max_tokens=2, ttft_s=0.9, tbt_s=0.1))
    desk.run()
    assert not desk.rejected
    assert all(finish.on_time for finish in desk.finished.values())
    assert desk.token_times["text-9"][0] < 1.0
    for number in range(5):
        gaps = [b - a for a, b in pairwise(desk.token_times[f"text-{number}"])]
        assert max(gaps) <= 0.1
