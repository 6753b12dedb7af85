"""What an iteration consists of, seen through the scheduler."""

from itertools import pairwise

import pytest

from cloud_doubles import SEGMENT, Desk, said, tail, text
from headtail_cloud.core.engine import Capacity
from headtail_cloud.core.options import SchedulerOptions
from headtail_cloud.core.request import Segment
from headtail_cloud.core.task import DecodeStep, PrefillChunk, TailItem, Task
from headtail_cloud.core.work import Work
from headtail_cloud.engines.modelled import Prices

ROOMY = Capacity(max_batch=16, blocks=400, block_tokens=4)


def brief(tasks: tuple[Task, ...]) -> list[str]:
    """`tail-1`, `text-1:16` for a chunk, `text-1` for a decode."""
    return [
        f"{task.request_id}:{len(task.tokens)}"
        if isinstance(task, PrefillChunk)
        else task.request_id
        for task in tasks
    ]


def test_tails_of_a_segment_are_one_batch() -> None:
    desk = Desk()
    desk.arrive(0.0, tail(0))
    desk.arrive(0.001, *(tail(n) for n in range(1, 5)))
    desk.run()
    assert [brief(step.tasks) for step in desk.steps] == [
        ["tail-0"],
        ["tail-1", "tail-2", "tail-3", "tail-4"],
    ]


def test_a_batch_has_its_limit() -> None:
    desk = Desk(capacity=Capacity(max_batch=2))
    desk.arrive(0.0, *(tail(n, deadline_s=1.0) for n in range(5)))
    desk.run()
    assert [len(step.tasks) for step in desk.steps] == [1, 2, 2]


def test_the_earliest_deadline_goes_first() -> None:
    desk = Desk(capacity=Capacity(max_batch=1))
    desk.arrive(0.0, tail(0, deadline_s=1.0), tail(1, deadline_s=0.9), tail(2, deadline_s=0.5))
    desk.run()
    assert [brief(step.tasks) for step in desk.steps] == [["tail-0"], ["tail-2"], ["tail-1"]]


def test_a_prefill_is_cut_so_that_a_tail_that_may_come_is_in_time() -> None:
    """Once tails come, a prompt of 200 ms runs in chunks that leave a tail its 50 ms."""
    desk = Desk(capacity=ROOMY, prices=Prices(prefill_s=0.001))
    desk.arrive(0.0, tail(0, deadline_s=0.05))
    desk.arrive(0.01, text(0, range(200)))
    desk.arrive(0.03, tail(1, deadline_s=0.05))
    desk.run()
    assert max(step.estimate_s for step in desk.steps) < 0.05
    late = desk.finished["tail-1"].timeline
    assert late.ended_at - late.arrived_at <= 0.05
    assert desk.tokens["text-0"] == said(range(200), 4)


def test_without_tails_a_prefill_runs_in_one_piece() -> None:
    desk = Desk(capacity=ROOMY, prices=Prices(prefill_s=0.001))
    desk.arrive(0.0, text(0, range(200), max_tokens=1))
    desk.run()
    assert [brief(step.tasks) for step in desk.steps] == [["text-0:200"]]


def test_decodes_are_not_stalled_by_a_prefill() -> None:
    """Stall-free: with 40 ms promised between tokens, a long prompt takes what is left."""
    desk = Desk(capacity=ROOMY, prices=Prices(prefill_s=0.001))
    desk.arrive(0.0, text(0, range(8), max_tokens=30, tbt_s=0.04))
    desk.arrive(0.05, text(1, range(300), max_tokens=1))
    desk.run()
    times = desk.token_times["text-0"]
    assert max(b - a for a, b in pairwise(times)) <= 0.04 + 1e-9
    assert desk.tokens["text-1"] == said(range(300), 1)


def test_token_budget_is_sarathis_rule() -> None:
    """Decodes first, then the prompt that has begun, then the next one, up to the budget."""
    desk = Desk(
        capacity=ROOMY,
        options=SchedulerOptions(token_budget=8, longest_step_s=100.0, smallest_chunk=1),
        prices=Prices(prefill_s=0.0001),
    )
    desk.arrive(0.0, text(0, range(3), max_tokens=4))
    desk.arrive(0.0, text(1, range(10), max_tokens=1), text(2, range(30, 36), max_tokens=1))
    desk.run()
    assert [brief(step.tasks) for step in desk.steps] == [
        ["text-0:3"],
        ["text-0", "text-1:7"],
        ["text-0", "text-1:3", "text-2:4"],
        ["text-0", "text-2:2"],
    ]


def test_a_small_chunk_is_not_worth_its_place() -> None:
    desk = Desk(capacity=ROOMY, options=SchedulerOptions(longest_step_s=0.011, smallest_chunk=8))
    desk.arrive(0.0, text(0, range(40), max_tokens=2))
    desk.run()
    assert [brief(step.tasks) for step in desk.steps] == [
        ["text-0:20"],
        ["text-0:20"],
        ["text-0"],
    ]


def test_tails_take_turns_by_tenant() -> None:
    desk = Desk(capacity=Capacity(max_batch=1))
    flood = [tail(n, tenant="flood", deadline_s=2.0) for n in range(6)]
    desk.arrive(0.0, *flood, tail(6, tenant="quiet", deadline_s=2.0))
    desk.run()
    order = [task.request_id for step in desk.steps for task in step.tasks]
    assert order.index("tail-6") <= 2


def test_a_higher_priority_goes_first() -> None:
    desk = Desk(capacity=Capacity(max_batch=1))
    desk.arrive(0.0, tail(0), tail(1, deadline_s=0.1), tail(2, deadline_s=0.2, priority=1))
    desk.run()
    assert [brief(step.tasks)[0] for step in desk.steps] == ["tail-0", "tail-2", "tail-1"]


def test_waiting_raises_the_priority() -> None:
    desk = Desk(capacity=Capacity(max_batch=1), options=SchedulerOptions(aging_s=0.02))
    urgent = [tail(n, deadline_s=10.0, priority=1, tenant="b") for n in range(1, 60)]
    desk.arrive(0.0, urgent[0], tail(0, deadline_s=10.0))
    for number, request in enumerate(urgent[1:]):
        desk.arrive(0.0027 * number, request)
    desk.run()
    order = [step.tasks[0].request_id for step in desk.steps]
    assert order.index("tail-0") < 30


def test_a_text_is_not_starved_by_tails() -> None:
    """Tails that would take the whole engine: a text moves on all the same, every aging_s."""
    options = SchedulerOptions(aging_s=0.2)
    desk = Desk(capacity=ROOMY, options=options, prices=Prices(run_s=0.02))
    desk.arrive(0.0, text(0, range(4), max_tokens=3, ttft_s=0.1, tbt_s=0.1))
    for number in range(200):
        desk.arrive(0.0005 + 0.01 * number, tail(number, deadline_s=0.045))
    desk.run(until=2.0)
    assert desk.tokens["text-0"] == said(range(4), 3)


def test_segments_of_a_chain_run_one_after_the_other() -> None:
    chain = (SEGMENT, Segment("yolo@1.0", "rest"))
    desk = Desk()
    desk.arrive(0.0, tail(0, chain=chain))
    desk.run()
    assert [[t.segment for t in s.tasks if isinstance(t, TailItem)] for s in desk.steps] == [
        [chain[0]],
        [chain[1]],
    ]
    assert desk.finished["tail-0"].output == (("tail-0", str(chain[0])), str(chain[1]))


def test_a_decode_that_lacks_a_block_takes_those_of_the_last_comer() -> None:
    desk = Desk(capacity=Capacity(max_batch=4, blocks=8, block_tokens=2))
    desk.arrive(0.0, text(0, [1, 2, 3], max_tokens=8), text(1, [4, 5, 6], max_tokens=8))
    desk.run()
    prefills = [t.request_id for s in desk.steps for t in s.tasks if isinstance(t, PrefillChunk)]
    assert prefills.count("text-0") == 1
    assert prefills.count("text-1") > 1
    assert desk.tokens["text-0"] == said([1, 2, 3], 8)
    assert desk.tokens["text-1"] == said([4, 5, 6], 8)


def test_an_important_prompt_takes_the_blocks_of_an_unimportant_text() -> None:
    desk = Desk(capacity=Capacity(max_batch=4, blocks=4, block_tokens=4))
    desk.arrive(0.0, text(0, range(8), max_tokens=8))
    desk.arrive(0.006, text(1, range(20, 32), max_tokens=2, priority=2))
    desk.run()
    ended = {name: finish.timeline.ended_at for name, finish in desk.finished.items()}
    assert ended["text-1"] < ended["text-0"]
    assert desk.tokens["text-0"] == said(range(8), 8)


def test_a_tenants_prompts_share_their_beginning() -> None:
    desk = Desk(capacity=ROOMY)
    desk.arrive(0.0, text(0, range(40)))
    desk.arrive(1.0, text(1, [*range(36), 99, 98]))
    desk.arrive(2.0, text(2, range(40), tenant="b"))
    desk.arrive(3.0, text(3, range(40), share_prefix=False))
    desk.run()
    computed = {f"text-{n}": 0 for n in range(4)}
    for step in desk.steps:
        for task in step.tasks:
            if isinstance(task, PrefillChunk):
                computed[task.request_id] += len(task.tokens)
    assert computed == {"text-0": 40, "text-1": 2, "text-2": 40, "text-3": 40}
    assert desk.tokens["text-1"] == said([*range(36), 99, 98], 4)


def test_the_last_token_of_a_known_prompt_is_computed_again() -> None:
    desk = Desk(capacity=ROOMY)
    desk.arrive(0.0, text(0, range(40), max_tokens=1))
    desk.arrive(1.0, text(1, range(40), max_tokens=1))
    desk.run()
    assert brief(desk.steps[-1].tasks) == ["text-1:4"]
    assert desk.tokens["text-1"] == desk.tokens["text-0"]


@pytest.mark.parametrize("blocks", [9, 400])
def test_decodes_of_several_texts_are_one_step(blocks: int) -> None:
    desk = Desk(capacity=Capacity(max_batch=3, blocks=blocks, block_tokens=4))
    desk.arrive(0.0, *(text(n, [n, 7], max_tokens=6) for n in range(3)))
    desk.run()
    together = [len(s.tasks) for s in desk.steps if all(isinstance(t, DecodeStep) for t in s.tasks)]
    assert max(together) == 3
    for n in range(3):
        assert desk.tokens[f"text-{n}"] == said([n, 7], 6)


def test_an_iteration_is_planned_shorter_where_estimates_are_off() -> None:
    def longest(noise: float) -> float:
        desk = Desk(capacity=ROOMY, prices=Prices(prefill_s=0.001))
        for number in range(100):
            off = 1 + noise * (1 if number % 2 else -1)
            work = Work(prefill_tokens=20)
            desk.costs.observe(work, off * desk.engine.estimate(work))
        desk.arrive(0.0, tail(0, deadline_s=0.05))
        desk.arrive(0.01, text(0, range(200)))
        desk.run()
        return max(step.estimate_s for step in desk.steps)

    assert longest(0.0) == pytest.approx(longest(0.001), rel=0.1)
    assert longest(0.15) < longest(0.0) / 1.15
