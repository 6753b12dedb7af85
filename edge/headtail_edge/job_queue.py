"""The batcher between threads: the server puts, the workers take."""

import threading
from dataclasses import dataclass
from typing import Final

from headtail_edge.batcher import Batch, Batcher, Refusal
from headtail_edge.job import Job
from headtail_edge.metrics import EdgeMetrics, Outcome
from headtail_fabric.clock import Clock
from headtail_fabric.wire import Hints

_LONGEST_HINT_MS: Final = 86_400_000  # the wire's limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How busy the workers are; `backlog_s` is what the waiting jobs will keep them busy for."""

    waiting: int
    running: int
    backlog_s: float

    def hints(self, *, batch: int = 0) -> Hints:
        """What a client is told of it, whose request was computed in a batch of that size."""
        queue_ms = min(round(self.backlog_s * 1000), _LONGEST_HINT_MS)
        return Hints(queue_ms=queue_ms, batch=batch, active=self.waiting + self.running)


class JobQueue:
    """A `Batcher` of jobs under one lock. All methods may be called from any thread."""

    def __init__(self, batcher: Batcher[Job], *, metrics: EdgeMetrics, clock: Clock) -> None:
        self._batcher = batcher
        self._metrics = metrics
        self._clock = clock
        self._changed = threading.Condition()
        self._idle = 0
        self._running: dict[Batch[Job], None] = {}
        self._closed = False

    def __repr__(self) -> str:
        with self._changed:
            return f"<JobQueue {self._batcher!r}, {len(self._running)} batches running>"

    def put(self, job: Job) -> Refusal | None:
        """Queue a job, or say when to come again."""
        with self._changed:
            self._expire()
            refusal = self._batcher.add(job)
            if refusal is None:
                self._changed.notify()
            return refusal

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

    def done(self, batch: Batch[Job], seconds: float) -> None:
        """A batch was answered; it took a worker `seconds`."""
        with self._changed:
            self._running.pop(batch, None)
            self._batcher.served(batch.key, len(batch.jobs), seconds)

    def cancel(self, session: bytes, request_id: int) -> Job | None:
        """Take out a job, if it still waits."""
        with self._changed:
            return self._batcher.cancel(session, request_id)

    def drop_session(self, session: bytes) -> list[Job]:
        """Take out the jobs of a session that still wait."""
        with self._changed:
            return self._batcher.drop_session(session)

    def load(self) -> Load:
        with self._changed:
            return Load(
                waiting=len(self._batcher),
                running=sum(len(batch.jobs) for batch in self._running),
                backlog_s=self._batcher.backlog_s(),
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
            self._running[batch] = None
        return batch

    def _expire(self) -> float:
        """Make room; who asked was told by the port. Returns the time."""
        now = self._clock.now()
        self._metrics.ended(Outcome.EXPIRED, len(self._batcher.expire(now)))
        return now

    def _pause_s(self) -> float | None:
        due_at = self._batcher.next_timer()
        return None if due_at is None else max(0.0, due_at - self._clock.now())
