"""What holds whatever comes: hypothesis draws the requests, their times and the engine's faults."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from cloud_doubles import SEGMENT, Desk, said, tail, text
from headtail_cloud.core.actions import Outcome
from headtail_cloud.core.engine import Capacity
from headtail_cloud.core.options import SchedulerOptions
from headtail_cloud.core.request import Request, Segment, TextRequest
from headtail_cloud.core.task import DecodeStep, PrefillChunk
from headtail_cloud.engines.modelled import ModelledEngine

TENANTS = st.sampled_from("abc")
TIMES = st.floats(0, 0.5)
CHAINS = st.sampled_from(
    [(SEGMENT,), (SEGMENT, Segment("yolo@1.0", "rest")), (Segment("other@2", "tail"),)]
)


@st.composite
def arrivals(draw: st.DrawFn) -> list[tuple[float, Request]]:
    requests: list[tuple[float, Request]] = []
    for number in range(draw(st.integers(1, 14))):
        when, tenant, priority = draw(TIMES), draw(TENANTS), draw(st.integers(0, 2))
        if draw(st.booleans()):
            deadline_s = draw(st.floats(0.004, 0.3))
            request: Request = tail(
                number,
                tenant=tenant,
                deadline_s=deadline_s,
                priority=priority,
                chain=draw(CHAINS),
            )
        else:
            request = text(
                number,
                draw(st.lists(st.integers(0, 1), min_size=1, max_size=24)),
                tenant=tenant,
                priority=priority,
                max_tokens=draw(st.integers(1, 12)),
                tbt_s=draw(st.floats(0.003, 1.0)),
                deadline_s=draw(st.none() | st.floats(0.01, 1.0)),
            )
        requests.append((when, request))
    return requests


def served(
    plan: list[tuple[float, Request]], blocks: int, breaks: set[str], cancelled: dict[str, float]
) -> Desk:
    limits = Capacity(max_batch=4, blocks=blocks, block_tokens=4)
    desk = Desk(
        engine=ModelledEngine(limits=limits, breaks=breaks),
        options=SchedulerOptions(aging_s=0.1, max_waiting_per_tenant=6, smallest_chunk=2),
    )
    for when, request in plan:
        desk.arrive(when, request)
    for request_id, when in cancelled.items():
        desk.cancel(when, request_id)
    desk.run(most_steps=5000)
    return desk


@settings(max_examples=60, deadline=None)
@given(arrivals(), st.integers(3, 40), st.data())
def test_no_job_is_lost_no_block_leaks_and_budgets_are_kept(
    plan: list[tuple[float, Request]], blocks: int, data: st.DataObject
) -> None:
    ids = [request.id for _, request in plan]
    breaks = data.draw(st.sets(st.sampled_from(ids), max_size=2))
    cancelled = data.draw(st.dictionaries(st.sampled_from(ids), TIMES, max_size=3))
    desk = served(plan, blocks, breaks, cancelled)

    assert Counter(ids) == Counter([*desk.rejected, *desk.finished])
    assert desk.scheduler.idle
    assert desk.scheduler.cache.pool.free == blocks
    for step in desk.steps:
        assert step.estimate_s <= step.budget_s + 1e-9 or len(step.tasks) == 1
        assert len({task.request_id for task in step.tasks}) == len(step.tasks)
        _nobody_writes_to_anothers_block(step.tasks)
    for _, request in plan:
        _ended_as_it_should(desk, request, breaks, cancelled)


def _nobody_writes_to_anothers_block(tasks: tuple[object, ...]) -> None:
    written: list[int] = []
    for task in tasks:
        if isinstance(task, PrefillChunk):
            first, last = task.start // 4, (task.start + len(task.tokens) - 1) // 4
            written += task.blocks[first : last + 1]
        elif isinstance(task, DecodeStep):
            written.append(task.blocks[task.position // 4])
    assert len(set(written)) == len(written)


def _ended_as_it_should(
    desk: Desk, request: Request, breaks: set[str], cancelled: dict[str, float]
) -> None:
    finish = desk.finished.get(request.id)
    if finish is None:
        return
    if finish.outcome is Outcome.FAILED:
        assert request.id in breaks
    if finish.outcome is Outcome.CANCELLED:
        assert request.id in cancelled
    if isinstance(request, TextRequest):
        words = desk.tokens[request.id]
        assert words == said(request.prompt, len(words))
        assert finish.ran == len(words)
        if finish.outcome is Outcome.DONE:
            assert len(words) == request.max_tokens


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 30), st.integers(4, 40))
def test_two_tenants_that_both_wait_are_served_alike(flood: int, prompt: int) -> None:
    """Tokens of service differ by no more than a bound that does not depend on the flood."""
    desk = Desk(
        capacity=Capacity(max_batch=2, blocks=200, block_tokens=4),
        options=SchedulerOptions(longest_step_s=0.02, aging_s=1000.0),
    )
    for number in range(flood):
        desk.arrive(0.0, text(number, range(prompt), tenant="flood", share_prefix=False))
    for number in range(100, 103):
        desk.arrive(0.0, text(number, range(prompt), tenant="quiet", share_prefix=False))
    desk.run()
    last_quiet = max(desk.finished[f"text-{n}"].timeline.ended_at for n in range(100, 103))
    before = [n for n in range(flood) if desk.finished[f"text-{n}"].timeline.ended_at < last_quiet]
    assert len(before) <= 3 + 2 * 2  # as many as the quiet one has, and what a full batch holds
