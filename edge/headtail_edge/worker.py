"""The workers: each takes a batch, has it computed and answers its jobs."""

import logging
import threading
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from headtail_edge.batcher import Batch
from headtail_edge.job import Job
from headtail_edge.job_queue import JobQueue
from headtail_edge.metrics import EdgeMetrics, Outcome
from headtail_edge.process_runner import WorkerDiedError
from headtail_edge.tail_runner import Answer, Failure, Ran, Runner
from headtail_fabric.clock import Clock
from headtail_fabric.logs import fields
from headtail_fabric.peer.ports import ServerPort
from headtail_fabric.wire import ErrorCode, Hints

log = logging.getLogger(__name__)


class Worker:
    """One worker, in a thread: its runner computes right there, or in a process of its own.

    ONNX Runtime releases the interpreter's lock while it computes, so that as many batches run at
    once as there are workers either way; decoding and all else run at once only in processes.
    """

    def __init__(
        self,
        *,
        queue: JobQueue,
        port: ServerPort,
        runner: Runner,
        metrics: EdgeMetrics,
        clock: Clock,
    ) -> None:
        self._queue = queue
        self._port = port
        self._runner = runner
        self._metrics = metrics
        self._clock = clock

    def run(self) -> None:
        """Work until the queue is closed and empty."""
        try:
            while (batch := self._queue.take()) is not None:
                self.serve(batch)
        finally:
            self._runner.close()

    def serve(self, batch: Batch[Job]) -> None:
        """See that every job of a batch is answered, whatever happens: now, or after one more
        try where a worker process died."""
        ran, unanswered = Ran(), dict.fromkeys(batch.jobs)
        try:
            ran = self._runner.run(batch.jobs)
            hints = self._queue.load(done=batch).hints(batch=len(batch.jobs))
            for outcome in ran.outcomes:
                self._deliver(outcome, hints)
                del unanswered[outcome.job]
        except WorkerDiedError as error:
            log.error("worker died", extra=fields(plan=batch.key, reason=error.message))
            self._metrics.worker_died()
            self._try_again(batch.jobs)
        except Exception:  # a worker that dies would take its share of the edge with it
            log.exception("worker failed in a batch", extra=fields(plan=batch.key))
            self._fail_all(unanswered, "the edge failed")
        finally:
            self._queue.done(batch, ran.spent)
            self._metrics.batch(len(batch.jobs), mixed=ran.spent.mixed)
            self._metrics.answered_all(
                [
                    outcome.timings
                    for outcome in ran.outcomes
                    if isinstance(outcome, Answer) and outcome.job not in unanswered
                ]
            )

    def _try_again(self, jobs: Sequence[Job]) -> None:
        """One by one, so that the one that did it, if one did, takes no other along."""
        for job in jobs:
            if job.alone:
                self._fail_all([job], "the edge's workers died of this request")
            else:
                self._queue.put_back(replace(job, alone=True))

    def _deliver(self, outcome: Answer | Failure, hints: Hints) -> None:
        if isinstance(outcome, Failure):
            self._fail(outcome)
        else:
            self._answer(outcome, hints)

    def _answer(self, answer: Answer, hints: Hints) -> None:
        self._port.respond(
            answer.job.session,
            answer.job.id,
            tensors=answer.tensors,
            payloads=answer.payloads,
            timings=answer.timings,
            hints=hints,
        )

    def _fail_all(self, jobs: Iterable[Job], message: str) -> None:
        for job in jobs:
            self._fail(Failure(job=job, code=ErrorCode.INTERNAL, message=message))

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
    def dead(self) -> int:
        """Workers that have ended; before the queue is closed none should have."""
        return sum(not thread.is_alive() for thread in self._threads)

    @property
    def alive(self) -> bool:
        """Whether any worker still runs."""
        return any(thread.is_alive() for thread in self._threads)
