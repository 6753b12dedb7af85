"""The batcher between threads: the server puts, the workers take."""

import threading
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from headtail_edge.admission import Admission, Refusal, turn_in_s
from headtail_edge.batcher import Batch, Batcher
from headtail_edge.costs import Costs
from headtail_edge.job import Job
from headtail_edge.metrics import EdgeMetrics, Outcome
from headtail_edge.plan import PlanKey, SegmentKey
from headtail_edge.spent import Spent
from headtail_fabric.clock import Clock
from headtail_fabric.wire import Hints

_LONGEST_HINT_MS: Final = 86_400_000  # the wire's limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How busy the workers are; a request that comes now would have its turn in `queue_s`."""

    waiting: int
    running: int
    queue_s: float

    def hints(self, *, batch: int = 0) -> Hints:
        """What a client is told of it, whose request was computed in a batch of that size."""
        queue_ms = min(round(self.queue_s * 1000), _LONGEST_HINT_MS)
        return Hints(queue_ms=queue_ms, batch=batch, active=self.waiting + self.running)


class JobQueue:
    """A `Batcher` of jobs for `workers` workers under one lock, with admission before it.

    All methods may be called from any thread.
    """

    def __init__(
        self,
        batcher: Batcher[Job],
        *,
        costs: Costs,
        workers: int,
        metrics: EdgeMetrics,
        clock: Clock,
    ) -> None:
        """`costs` are those that the batcher was made with."""
        self._batcher = batcher
        self._costs = costs
        self._admission = Admission(batcher=batcher, costs=costs)
        self._workers = workers
        self._metrics = metrics
        self._clock = clock
        self._changed = threading.Condition()
        self._idle = 0
        self._running: dict[Batch[Job], float] = {}
        """Batches with the time when they should be done."""
        self._closed = False

    def __repr__(self) -> str:
        with self._changed:
            return f"<JobQueue {self._batcher!r}, {len(self._running)} batches running>"

    def put(self, job: Job) -> Refusal | None:
        """Queue a job that would be in time, or say when to come again and what else to try."""
        return next(iter(self.put_all([job]).values()), None)

    def put_all(self, jobs: Iterable[Job]) -> dict[Job, Refusal]:
        """Queue those that would be in time, one after the other; for the others, when to come
        again and what else to try. Workers wake when all are there."""
        refused: dict[Job, Refusal] = {}
        with self._changed:
            now, before = self._expire(), len(self._batcher)
            for job in jobs:
                if not self._admission.is_surely_in_time(job, now):
                    free_in_s = self._free_in_s(self._running.values(), now)
                    refusal = self._admission.judge(job, free_in_s, now)
                    if refusal is not None:
                        refused[job] = refusal
                        continue
                self._batcher.add(job)
            if self._idle:
                self._changed.notify(len(self._batcher) - before)
        return refused

    def put_back(self, job: Job) -> None:
        """Queue a job again that was accepted and taken, but not answered; in vain if its session
        began anew meanwhile and asks for it itself."""
        with self._changed:
            if not self._batcher.waits(job.session, job.id):
                self._admission.look_again()
                self._batcher.add(job)
                self._changed.notify()

    def take(self) -> Batch[Job] | None:
        """Wait for work. None when the queue was closed and is empty: the worker may go.

        Every batch must be given back to `done`.
        """
        with self._changed:
            self._idle += 1
            try:
                while (batch := self._next()) is None:
                    if self._closed and not len(self._batcher):
                        return None
                    self._changed.wait(self._pause_s())
                return batch
            finally:
                self._idle -= 1

    def done(self, batch: Batch[Job], spent: Spent) -> None:
        """A batch was dealt with; `spent` is what is to be learned of it."""
        with self._changed:
            now = self._clock.now()
            self._running.pop(batch, None)
            self._admission.look_again()
            for (key, codec), each_s in spent.decoding_each_s().items():
                self._costs.decoded(key, codec, each_s, now)
            for took in spent.runs:
                if took.until is None:
                    self._costs.computed(
                        took.plan, took.jobs, took.seconds, gmacs=took.gmacs, now=now
                    )
                else:
                    self._costs.passed(took.key, took.jobs, took.seconds, now=now)

    def cancel(self, session: bytes, request_id: int) -> Job | None:
        """Take out a job, if it still waits."""
        with self._changed:
            return self._batcher.cancel(session, request_id)

    def drop_session(self, session: bytes) -> list[Job]:
        """Take out the jobs of a session that still wait."""
        with self._changed:
            return self._batcher.drop_session(session)

    def load(self, *, done: Batch[Job] | None = None) -> Load:
        """How busy the workers are, but for a batch that is `done` and about to be given back."""
        with self._changed:
            now = self._expire()
            running = {batch: at for batch, at in self._running.items() if batch is not done}
            free_in_s = self._free_in_s(running.values(), now)
            return Load(
                waiting=len(self._batcher),
                running=sum(len(batch.jobs) for batch in running),
                queue_s=turn_in_s(free_in_s, self._batcher.work_before_next_s()),
            )

    def serving(self, digests: Collection[bytes]) -> None:
        """What is served now; what other bundles cost is forgotten."""
        with self._changed:
            self._admission.look_again()
            self._costs.keep(
                lambda key: isinstance(key, PlanKey | SegmentKey) and key.digest in digests
            )

    def close(self) -> None:
        """Workers finish what waits, then go."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def abandon(self) -> list[Job]:
        """Close at once; returns every job that was not answered, running ones among them."""
        with self._changed:
            self._closed = True
            waiting = self._batcher.drop_all()
            running = [job for batch in self._running for job in batch.jobs]
            self._running.clear()
            self._changed.notify_all()
            return waiting + running

    def _next(self) -> Batch[Job] | None:
        now = self._expire()
        batch = self._batcher.next_batch(now, self._idle)
        if batch is not None:
            self._admission.look_again()
            self._running[batch] = now + batch.expected_s
        return batch

    def _free_in_s(self, done_at: Iterable[float], now: float) -> list[float]:
        busy = [max(0.0, at - now) for at in done_at]
        return busy + [0.0] * (self._workers - len(busy))

    def _expire(self) -> float:
        """Make room; who asked was told by the port. Returns the time."""
        now = self._clock.now()
        if expired := self._batcher.expire(now):
            self._metrics.ended(Outcome.EXPIRED, len(expired))
        return now

    def _pause_s(self) -> float | None:
        due_at = self._batcher.next_timer()
        return None if due_at is None else max(0.0, due_at - self._clock.now())
