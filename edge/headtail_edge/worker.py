"""The threads that compute: each takes a batch, runs it and answers its jobs."""

import logging
import threading
from collections.abc import Iterable

from headtail_edge.batcher import Batch
from headtail_edge.job import Job
from headtail_edge.job_queue import JobQueue
from headtail_edge.metrics import EdgeMetrics, Outcome
from headtail_edge.tail_runner import Answer, Failure, TailRunner
from headtail_fabric.clock import Clock
from headtail_fabric.logs import fields
from headtail_fabric.peer.ports import ServerPort
from headtail_fabric.wire import ErrorCode

log = logging.getLogger(__name__)


class Worker:
    """One worker. ONNX Runtime releases the interpreter's lock while it computes, so that as many
    batches run at once as there are workers."""

    def __init__(
        self, *, queue: JobQueue, port: ServerPort, metrics: EdgeMetrics, clock: Clock
    ) -> None:
        self._queue = queue
        self._port = port
        self._metrics = metrics
        self._clock = clock
        self._runner = TailRunner(clock=clock)

    def run(self) -> None:
        """Work until the queue is closed and empty."""
        while (batch := self._queue.take()) is not None:
            self.serve(batch)

    def serve(self, batch: Batch[Job]) -> None:
        """Answer every job of a batch, whatever happens."""
        started_at = self._clock.now()
        unanswered = dict.fromkeys(batch.jobs)
        try:
            for outcome in self._runner.run(batch.jobs):
                self._deliver(outcome, batch)
                del unanswered[outcome.job]
        except Exception:  # a worker that dies would take its share of the edge with it
            log.exception("worker failed in a batch", extra=fields(plan=batch.key))
            for job in unanswered:
                self._fail(Failure(job=job, code=ErrorCode.INTERNAL, message="the edge failed"))
        finally:
            self._queue.done(batch, self._clock.now() - started_at)
            self._metrics.batch(len(batch.jobs))

    def _deliver(self, outcome: Answer | Failure, batch: Batch[Job]) -> None:
        if isinstance(outcome, Failure):
            self._fail(outcome)
            return
        self._port.respond(
            outcome.job.session,
            outcome.job.id,
            tensors=outcome.tensors,
            payloads=outcome.payloads,
            timings=outcome.timings,
            hints=self._queue.load().hints(batch=len(batch.jobs)),
        )
        self._metrics.answered(outcome.timings)

    def _fail(self, failure: Failure) -> None:
        job = failure.job
        self._port.fail(job.session, job.id, failure.code, failure.message)
        self._metrics.ended(Outcome.FAILED)


class WorkerPool:
    """Workers, each in a thread of its own, from `start` until the queue is closed and empty.

    The threads are daemons: one that hangs in a native call can't keep the process alive.
    """

    def __init__(self, workers: Iterable[Worker]) -> None:
        self._threads = [
            threading.Thread(target=worker.run, name=f"tail-{number}", daemon=True)
            for number, worker in enumerate(workers, start=1)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    @property
    def alive(self) -> bool:
        """Whether any worker still runs."""
        return any(thread.is_alive() for thread in self._threads)
