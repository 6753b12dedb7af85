"""The scheduler of one engine: events in, actions out.

    RequestArrived -> Accept or Reject        StepFinished -> EmitToken, Finish, StartStep
    RequestCancelled -> Finish                TimePassed -> Finish of what is too late

One iteration runs at a time. Every request that was accepted ends in exactly one `Finish`; one
that was rejected is forgotten. The caller acts in the order of the list, and reports each step
once. The same object serves live, in tests and in a simulator.
"""

from collections.abc import Iterator, Sequence

from headtail_cloud.core.actions import (
    Accept,
    Action,
    EmitToken,
    Finish,
    Kind,
    Outcome,
    Reason,
    Reject,
    StartStep,
    Step,
    Timeline,
)
from headtail_cloud.core.admission import Admission, Forecast, Refused
from headtail_cloud.core.cost_model import CostModel
from headtail_cloud.core.engine import Capacity
from headtail_cloud.core.events import (
    DrainAsked,
    EngineGone,
    EngineStarted,
    EngineStopped,
    Event,
    RequestArrived,
    RequestCancelled,
    StepFailed,
    StepFinished,
    TimePassed,
)
from headtail_cloud.core.exit_policy import Evidence
from headtail_cloud.core.fairness import FairShare
from headtail_cloud.core.iteration import IterationRule
from headtail_cloud.core.job import Job, TailJob, TextJob
from headtail_cloud.core.kv_cache import KvCache
from headtail_cloud.core.options import SchedulerOptions
from headtail_cloud.core.protection import Protection
from headtail_cloud.core.request import Request, TailRequest
from headtail_cloud.core.resources import Resources
from headtail_cloud.core.running import RunningStep
from headtail_cloud.core.task import (
    Fault,
    PrefillChunk,
    TailOutput,
    Task,
    TaskFailed,
    TaskResult,
    TextOutput,
    work_of,
)


class Scheduler:
    """Not thread-safe; never looks at a clock."""

    def __init__(
        self, capacity: Capacity, costs: CostModel, options: SchedulerOptions | None = None
    ) -> None:
        self._options = options or SchedulerOptions()
        self._costs = costs
        self._jobs: dict[str, Job] = {}
        self._arrivals = 0
        self._steps = 0
        self._running: RunningStep | None = None
        self._draining = False
        self._stopped_until: float | None = None
        self.cache = KvCache(
            blocks=capacity.blocks,
            block_tokens=capacity.block_tokens,
            spare=self._options.spare_blocks,
        )
        self._resources = Resources(
            max_batch=capacity.max_batch,
            cache=self.cache,
            shares=FairShare(self._options.shares),
            costs=costs,
            options=self._options,
        )
        self._protection = Protection(self._resources)
        self._admission = Admission(self._resources, self._protection)
        self._rule = IterationRule(self._resources)

    def __repr__(self) -> str:
        state = "draining" if self._draining else "open"
        return f"<Scheduler {state}, {len(self._jobs)} here, {self._running!r}, {self.cache!r}>"

    def __len__(self) -> int:
        """Requests that are here."""
        return len(self._jobs)

    @property
    def idle(self) -> bool:
        """Whether nothing is here and nothing runs."""
        return not self._jobs and self._running is None

    def next_timer(self) -> float | None:
        """When something will be too late that does not run now."""
        times = (job.deadline_at for job in self._jobs.values() if not job.in_step)
        return min((at for at in times if at is not None), default=None)

    @property
    def full(self) -> bool:
        """Whether it would refuse whatever comes."""
        return self._draining or len(self._jobs) >= self._options.max_waiting

    @property
    def running(self) -> bool:
        """Whether an iteration is under way."""
        return self._running is not None

    @property
    def jobs(self) -> tuple[Job, ...]:
        """What is here, in the order of arrival."""
        return tuple(self._jobs.values())

    def has(self, job: Job) -> bool:
        """Whether that very job is here."""
        return self._jobs.get(job.request.id) is job

    def forecast(self, request: Request, now: float) -> Forecast:
        """What would become of a request, if it came now."""
        left_s = self._step_left_s(now)
        return self._admission.forecast(request, self._jobs.values(), step_left_s=left_s, now=now)

    def release(self, request_id: str) -> Job:
        """Take out a job that no iteration runs, for another scheduler to `adopt`. Its blocks stay
        in this one's cache as long as nothing else needs them. Raises ValueError for one that is
        not here, or runs."""
        job = self._jobs.get(request_id)
        if job is None or job.in_step:
            raise ValueError(f"request {request_id!r} can't leave")
        del self._jobs[request_id]
        self._resources.shares.leave(job.tenant)
        self._free(job)
        return job

    def adopt(
        self, job: Job, now: float, *, blocks: Sequence[int] = (), computed: int = 0
    ) -> list[Action]:
        """Go on with a job that another scheduler has released; it was accepted there, and is not
        judged again. `blocks` of this cache hold the entries of its first `computed` tokens.
        Raises ValueError for one that is here already."""
        if job.request.id in self._jobs:
            raise ValueError(f"request {job.request.id!r} is here already")
        self._arrivals += 1
        job.number = self._arrivals
        job.held = False
        self._jobs[job.request.id] = job
        self._resources.shares.enter(job.tenant)
        if isinstance(job, TextJob) and blocks:
            self.cache.adopt(job, blocks, computed)
        return self.on_event(TimePassed(), now)

    def on_event(self, event: Event, now: float) -> list[Action]:
        """What is to be done about it. Raises ValueError for a request whose id is here already,
        and for a step that does not run: both are the caller's bugs."""
        actions: list[Action] = []
        match event:
            case RequestArrived(request=request):
                actions.append(self._arrived(request, now))
            case RequestCancelled(request_id=request_id):
                actions += self._cancelled(request_id, now)
            case StepFinished(step_id=step_id, results=results, took_s=took_s):
                actions += self._finished(step_id, results, took_s, now)
            case StepFailed():
                actions += self._failed(event, now)
            case TimePassed():
                pass
            case DrainAsked():
                self._draining = True
            case EngineStopped(ready_at=ready_at):
                self._stopped_until = ready_at
                self._lose_state()
            case EngineStarted():
                self._stopped_until = None
            case EngineGone(message=message):
                self._draining, self._stopped_until = True, now
                actions += [self._fail(job, message, now) for job in self.jobs]
        actions += self._expire(now)
        if self._running is None and self._stopped_until is None:
            actions += self._start(now)
        return actions

    def _arrived(self, request: Request, now: float) -> Action:
        if request.id in self._jobs:
            raise ValueError(f"request {request.id!r} is here already")
        if self._draining:
            return Reject(request_id=request.id, reason=Reason.DRAINING, retry_after_s=None)
        verdict = self._admission.judge(
            request, self._jobs.values(), step_left_s=self._step_left_s(now), now=now
        )
        if isinstance(verdict, Refused):
            return self._rejected(request, verdict, now)
        self._jobs[request.id] = self._job(request, verdict.variant, now)
        self._resources.shares.enter(request.tenant)
        if isinstance(request, TailRequest):
            self._protection.saw(request.chain, request.deadline_s, now)
        return Accept(
            request_id=request.id, variant=verdict.variant, predicted_s=verdict.predicted_s
        )

    def _rejected(self, request: Request, refused: Refused, now: float) -> Reject:
        reason, retry_after_s = refused.reason, refused.retry_after_s
        if reason is Reason.TOO_LATE and self._stopped_until is not None:
            reason = Reason.COLD_START
            retry_after_s = max(self._options.least_retry_s, self._stopped_until - now)
        return Reject(request_id=request.id, reason=reason, retry_after_s=retry_after_s)

    def _job(self, request: Request, variant: int, now: float) -> Job:
        self._arrivals += 1
        if isinstance(request, TailRequest):
            chain = (request.chain, *request.fallbacks)[variant]
            return TailJob(request, chain, number=self._arrivals, now=now)
        max_tokens = (request.max_tokens, *request.fallback_tokens)[variant]
        return TextJob(
            request,
            max_tokens,
            number=self._arrivals,
            now=now,
            block_tokens=self.cache.block_tokens,
        )

    def _cancelled(self, request_id: str, now: float) -> Iterator[Action]:
        job = self._jobs.get(request_id)
        if job is not None:
            yield self._end(job, Outcome.CANCELLED, now)

    def _step_left_s(self, now: float) -> float:
        if self._stopped_until is not None:
            return max(0.0, self._stopped_until - now)
        if self._running is None:
            return 0.0
        return self._running.left_s(now)

    def _start(self, now: float) -> Iterator[Action]:
        draft = self._rule.form(
            list(self._jobs.values()), expected_slack_s=self._protection.slack_s(now), now=now
        )
        if draft is None:
            return
        self._steps += 1
        step = Step(
            id=self._steps,
            tasks=tuple(draft.tasks),
            estimate_s=draft.estimate_s,
            budget_s=draft.budget_s,
        )
        self._running = RunningStep(step, tuple(draft.jobs), now)
        yield StartStep(step=step)

    def _stopped(self, step_id: int) -> RunningStep:
        running = self._running
        if running is None or running.step.id != step_id:
            raise ValueError(f"step {step_id} does not run")
        self._running = None
        running.end()
        return running

    def _finished(
        self, step_id: int, results: Sequence[TaskResult], took_s: float, now: float
    ) -> Iterator[Action]:
        running = self._stopped(step_id)
        self._costs.observe(work := work_of(running.step.tasks), took_s)
        self._protection.ran(work, now)
        by_id = {result.request_id: result for result in results}
        for job, task in zip(running.jobs, running.step.tasks, strict=True):
            if job.cancelled:
                self._free(job)
                continue
            job.alone = False
            result = by_id.get(job.request.id)
            yield from self._advance(job, task, result, now)

    def _advance(
        self, job: Job, task: Task, result: TaskResult | None, now: float
    ) -> Iterator[Action]:
        if isinstance(job, TailJob) and isinstance(result, TailOutput):
            yield from self._tail_ran(job, result, now)
        elif isinstance(job, TextJob) and isinstance(result, TextOutput):
            yield from self._text_ran(job, task, result, now)
        elif isinstance(result, TaskFailed):
            yield self._fail(job, result.message, now, fault=result.fault)
        else:
            yield self._fail(job, "the engine gave no result", now)

    def _tail_ran(self, job: TailJob, result: TailOutput, now: float) -> Iterator[Action]:
        job.at += 1
        if job.at == len(job.chain):
            yield self._end(job, Outcome.DONE, now, output=result.output)
        elif _content(job, result.evidence):
            yield self._end(job, Outcome.EXITED, now, output=result.output)
        else:
            job.input = result.carry

    def _text_ran(
        self, job: TextJob, task: Task, result: TextOutput, now: float
    ) -> Iterator[Action]:
        self.cache.computed(job, len(task.tokens) if isinstance(task, PrefillChunk) else 1)
        if result.token is None:
            if job.remaining == 0:
                yield self._fail(job, "the engine gave no token", now)
            return
        after_s = None if job.last_token_at is None else now - job.last_token_at
        job.late = job.late or now > job.next_due_at
        job.tokens.append(result.token)
        job.last_token_at = now
        if job.first_token_at is None:
            job.first_token_at = now
        yield EmitToken(
            request_id=job.request.id, token=result.token, after_s=after_s, output=result.output
        )
        if result.token in job.request.stop_tokens or job.ran >= job.max_tokens:
            yield self._end(job, Outcome.DONE, now)
        elif _content(job, result.evidence):
            yield self._end(job, Outcome.EXITED, now)

    def _failed(self, event: StepFailed, now: float) -> Iterator[Action]:
        """Each of its jobs is tried once more, alone, so that one that breaks the engine takes no
        other along. One that ran alone is tried again only if the engine was lost, which need not
        have been its fault."""
        running = self._stopped(event.step_id)
        if event.state_lost:
            self._lose_state()
        single = len(running.jobs) == 1 and not event.state_lost
        for job in running.jobs:
            if job.cancelled:
                self._free(job)
            elif event.begun and (job.alone or single):
                yield self._fail(job, event.message, now)
            elif event.begun:
                job.alone = True

    def _lose_state(self) -> None:
        for job in self._jobs.values():
            self._free(job)
        self.cache.pool.forget_all()

    def _expire(self, now: float) -> Iterator[Action]:
        for job in list(self._jobs.values()):
            deadline_at = job.deadline_at
            if deadline_at is not None and deadline_at <= now and not job.in_step:
                yield self._end(job, Outcome.EXPIRED, now)

    def _end(
        self,
        job: Job,
        outcome: Outcome,
        now: float,
        *,
        output: object = None,
        message: str = "",
        fault: Fault | None = None,
    ) -> Finish:
        """One that is in the running step keeps its blocks until that has ended: the engine may
        still write to them."""
        del self._jobs[job.request.id]
        self._resources.shares.leave(job.tenant)
        if job.in_step:
            job.cancelled = True
        else:
            self._free(job)
        answered = outcome in (Outcome.DONE, Outcome.EXITED)
        in_time = job.deadline_at is None or now <= job.deadline_at
        return Finish(
            request_id=job.request.id,
            kind=Kind.TAIL if isinstance(job, TailJob) else Kind.TEXT,
            outcome=outcome,
            on_time=answered and in_time and not job.late,
            timeline=Timeline(
                arrived_at=job.arrived_at,
                started_at=job.started_at,
                first_token_at=job.first_token_at if isinstance(job, TextJob) else None,
                ended_at=now,
            ),
            output=output,
            ran=job.ran,
            message=message,
            fault=fault,
        )

    def _fail(self, job: Job, message: str, now: float, fault: Fault = Fault.ENGINE) -> Finish:
        return self._end(job, Outcome.FAILED, now, message=message, fault=fault)

    def _free(self, job: Job) -> None:
        if isinstance(job, TextJob) and job.blocks:
            self.cache.evict(job)


def _content(job: Job, evidence: Evidence | None) -> bool:
    return evidence is not None and job.exit_policy.observe(evidence)
