"""Which tasks the next iteration consists of.

In this order, as long as they fit the time budget (`budget`):

    1. a text that waits far longer than promised, so that nothing starves
    2. tails that would be too late in the iteration after this one
    3. decodes that would be, the one whose token is due first at the front
    4. other decodes, if the smallest chunk of the prompt that is next still fits then
    5. the other tails
    6. the next chunk of prompts that have begun
    7. prompts that have not
    8. the decodes that were left out for a prompt

Tails and new prompts are taken by priority, which rises with waiting, then in turns of their
tenants (`fairness`), then by deadline. Without deadlines and with a token budget this is the rule
of Sarathi-Serve (Agrawal et al., OSDI 2024): decodes, begun prefills, new prefills.

A new prompt takes all its blocks at once, so what has begun is never stuck. A decode that lacks a
block takes those of the text that would be served last, a prompt those of texts with a lower
priority; these are computed again later.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeVar

from headtail_cloud.core import tail_pass
from headtail_cloud.core.budget import time_budget_s
from headtail_cloud.core.draft import Draft
from headtail_cloud.core.job import Job, TailJob, TextJob
from headtail_cloud.core.request import Segment
from headtail_cloud.core.resources import Resources
from headtail_cloud.core.task import DecodeStep, PrefillChunk, TailItem, Task
from headtail_cloud.core.work import Work, chunk_work

_JobT = TypeVar("_JobT", TailJob, TextJob)

_ONE_TOKEN: Final = 1


class IterationRule:
    """Puts iterations together; blocks are taken, tenants charged, as it does."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._cache = resources.cache
        self._options = resources.options

    def form(self, jobs: Sequence[Job], *, expected_slack_s: float, now: float) -> Draft | None:
        """The next iteration of those jobs, or None when there is nothing to do. A job that is to
        run alone does, the oldest first; one that is held does not."""
        jobs = [job for job in jobs if not job.held]
        outcasts = sorted((job for job in jobs if job.alone), key=_by_number)
        for job in outcasts:
            if draft := self._filled([job], expected_slack_s, now):
                return draft
        return self._filled([job for job in jobs if not job.alone], expected_slack_s, now)

    def _filled(self, jobs: Sequence[Job], expected_slack_s: float, now: float) -> Draft | None:
        tails = [job for job in jobs if isinstance(job, TailJob)]
        texts = [job for job in jobs if isinstance(job, TextJob)]
        slack_s = {job: self._slack_s(job, now) for job in tails}
        # What is late already must not make others late, too.
        tail_slack_s = min((slack for slack in slack_s.values() if slack > 0), default=math.inf)
        other_slack_s = min(
            [expected_slack_s, *(_token_slack_s(job, now) for job in texts if job.decoding)]
        )
        budget_s = self._budget_s(min(tail_slack_s, other_slack_s))
        full_s = self._budget_s(other_slack_s)
        starving = self._starving(texts, now)
        if starving is None and tail_pass.is_worth_it(
            tails, texts, together_s=budget_s, full_s=full_s, resources=self._resources
        ):
            texts = []
        draft = Draft(
            budget_s=budget_s,
            token_budget=self._options.token_budget,
            estimate=self._resources.estimate,
        )
        self._make_way(texts, now)
        if starving is not None:
            self._save(draft, starving, texts, now)
        one_token_s = self._resources.estimate(Work(decodes=1)) if texts else 0.0
        margin = self._resources.margin
        length_s = margin * max(draft.budget_s, one_token_s)
        due = [job for job in tails if slack_s[job] < length_s + self._item_s(job)]
        others = [job for job in tails if slack_s[job] >= length_s + self._item_s(job)]
        left = self._tails(draft, due, now)
        self._decodes(draft, texts, now, due_before=now + 2 * length_s)
        with draft.keeping(self._next_chunk(texts, now)):
            self._decodes(draft, texts, now)
            left += self._tails(draft, others, now)
        needed_s = min((slack_s[job] - self._item_s(job) for job in left), default=math.inf)
        draft.tighten(needed_s / margin)
        self._chunks(draft, texts)
        self._new_prompts(draft, texts, now)
        self._decodes(draft, texts, now)
        return draft if draft.tasks else None

    def _make_way(self, texts: Sequence[TextJob], now: float) -> None:
        """A prompt of a higher priority takes the blocks of running texts that have a lower one,
        if it needs them."""
        for job in self._in_order([job for job in texts if not job.blocks], now):
            running = [other for other in texts if other.blocks]
            lower = [other for other in running if other.request.priority < job.request.priority]
            lower.sort(key=lambda other: (-other.request.priority, other.number))
            held = sum(len(other.blocks) for other in lower)
            if self._cache.blocks_for(len(job.tokens)) > self._cache.pool.free + held:
                return
            full = len(running) >= self._resources.max_batch
            while lower and (full or not self._cache.begin(job, keep_spare=False)):
                self._cache.evict(lower.pop())
                full = False

    def _starving(self, texts: Sequence[TextJob], now: float) -> TextJob | None:
        """The one that has waited longest beyond what was promised, if that is too long."""
        patience_s = self._options.aging_s
        overdue_s = {job: now - max(job.next_due_at, job.last_run_at) for job in texts}
        worst = max(texts, key=lambda job: (overdue_s[job], -job.number), default=None)
        return worst if worst is not None and overdue_s[worst] > patience_s else None

    def _save(self, draft: Draft, job: TextJob, texts: Sequence[TextJob], now: float) -> None:
        if job.decoding:
            self._decode(draft, job, texts, now)
        elif job.blocks or self._cache.begin(job, keep_spare=False):
            self._chunk(draft, job)

    def _tails(self, draft: Draft, tails: Iterable[TailJob], now: float) -> list[TailJob]:
        """Adds what fits; returns what did not."""
        left: list[TailJob] = []
        full: set[Segment] = set()
        for job in self._in_order(tails, now):
            if job.segment not in full:
                item = TailItem(request_id=job.request.id, segment=job.segment, input=job.input)
                if draft.items(job.segment) < self._resources.max_batch and draft.fits(item.work):
                    self._add(draft, job, item)
                    continue
                full.add(job.segment)
            left.append(job)
        return left

    def _decodes(
        self,
        draft: Draft,
        texts: Sequence[TextJob],
        now: float,
        *,
        due_before: float = math.inf,
    ) -> None:
        decoding = [job for job in texts if job.decoding and job.next_due_at < due_before]
        for job in sorted(decoding, key=lambda job: (job.next_due_at, job.number)):
            if job not in draft.jobs and job.decoding:
                self._decode(draft, job, texts, now)

    def _decode(self, draft: Draft, job: TextJob, texts: Sequence[TextJob], now: float) -> None:
        task = _decode_step(job)
        if not draft.fits(task.work):
            return
        while not self._cache.grow(job, _ONE_TOKEN):
            holders = [other for other in texts if other.blocks and other not in draft.jobs]
            victim = max(holders, key=lambda other: self._rank(other, now))
            self._cache.evict(victim)
            if victim is job:
                return
        self._add(draft, job, _decode_step(job))

    def _next_chunk(self, texts: Sequence[TextJob], now: float) -> Work:
        """The least that the prompt which is next will take; nothing if there is none that can
        go on."""
        begun = [job for job in texts if job.blocks and not job.decoding]
        job = min(begun, key=_by_number, default=None)
        if job is None:
            if sum(1 for job in texts if job.blocks) >= self._resources.max_batch:
                return Work()
            job = next(self._in_order([job for job in texts if not job.blocks], now), None)
            if job is None or self._cache.blocks_for(len(job.tokens)) > self._cache.pool.free:
                return Work()
        start = job.computed
        tokens = min(self._options.smallest_chunk, job.remaining)
        return chunk_work(start, tokens, last=tokens == job.remaining)

    def _chunks(self, draft: Draft, texts: Iterable[TextJob]) -> None:
        begun = [job for job in texts if job.blocks and not job.decoding]
        for job in sorted(begun, key=_by_number):
            if job not in draft.jobs:
                self._chunk(draft, job)

    def _chunk(self, draft: Draft, job: TextJob) -> None:
        size = draft.largest_chunk(
            job.computed, job.remaining, least=min(self._options.smallest_chunk, job.remaining)
        )
        if size:
            self._add(draft, job, _prefill_chunk(job, size))

    def _new_prompts(self, draft: Draft, texts: Sequence[TextJob], now: float) -> None:
        """In order; the first that finds no room ends it, or a large one would wait for ever."""
        running = sum(1 for job in texts if job.blocks)
        for job in self._in_order([job for job in texts if not job.blocks], now):
            start = self._cache.shared_tokens(job)
            least = min(self._options.smallest_chunk, len(job.tokens) - start)
            if not draft.largest_chunk(start, len(job.tokens) - start, least=least):
                return
            if running >= self._resources.max_batch:
                return
            if not self._cache.begin(job, keep_spare=running > 0):
                return
            running += 1
            self._chunk(draft, job)

    def _in_order(self, jobs: Iterable[_JobT], now: float) -> Iterator[_JobT]:
        levels: dict[int, dict[str, list[_JobT]]] = defaultdict(lambda: defaultdict(list))
        for job in jobs:
            levels[self._level(job, now)][job.tenant].append(job)
        for level in sorted(levels, reverse=True):
            for line in levels[level].values():
                line.sort(key=_by_deadline)
            yield from self._resources.shares.turns(levels[level])

    def _budget_s(self, slack_s: float) -> float:
        return time_budget_s(slack_s, self._options, margin=self._resources.margin)

    def _item_s(self, job: TailJob) -> float:
        return self._resources.item_s(job.segment)

    def _slack_s(self, job: TailJob, now: float) -> float:
        """How long the iteration may take that runs its segment, if its deadline is to be met."""
        return job.deadline_at - now - self._resources.chain_s(job.later)

    def _level(self, job: Job, now: float) -> int:
        return job.request.priority + int((now - job.arrived_at) / self._options.aging_s)

    def _rank(self, job: TextJob, now: float) -> tuple[int, int]:
        """Grows towards those that are served last."""
        return -self._level(job, now), job.number

    def _add(self, draft: Draft, job: Job, task: Task) -> None:
        draft.add(job, task)
        self._resources.shares.charge(job.tenant, self._resources.estimate(task.work))


def _decode_step(job: TextJob) -> DecodeStep:
    return DecodeStep(
        request_id=job.request.id,
        model=job.request.model,
        token=job.tokens[-1],
        position=job.computed,
        blocks=tuple(job.blocks),
        input=job.request.input,
    )


def _prefill_chunk(job: TextJob, size: int) -> PrefillChunk:
    return PrefillChunk(
        request_id=job.request.id,
        model=job.request.model,
        tokens=tuple(job.tokens[job.computed : job.computed + size]),
        start=job.computed,
        blocks=tuple(job.blocks),
        last=size == job.remaining,
        input=job.request.input,
    )


def _token_slack_s(job: TextJob, now: float) -> float:
    """Until its next token is due; what was promised between tokens, if it is late."""
    slack_s = job.next_due_at - now
    return slack_s if slack_s > 0 else job.request.tbt_s


def _by_number(job: Job) -> int:
    return job.number


def _by_deadline(job: Job) -> tuple[float, int]:
    return (job.deadline_at if isinstance(job, TailJob) else 0.0, job.number)
