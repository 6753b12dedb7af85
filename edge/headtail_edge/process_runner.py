"""Batches computed in a process: whatever native code does to it, the edge lives on."""

import logging
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from multiprocessing import Pipe
from typing import Final

from headtail_edge.job import Job
from headtail_edge.shared_memory import Arena, Channel
from headtail_edge.spent import Spent
from headtail_edge.tail_runner import Answer, Failure, Ran
from headtail_edge.worker_process import Done, Report, Task
from headtail_fabric.clock import Clock
from headtail_fabric.errors import ResourceError
from headtail_fabric.logs import fields
from headtail_fabric.wire import Buffer, Timings

_CLOSING_S: Final = 1.0

log = logging.getLogger(__name__)


class WorkerDiedError(ResourceError):
    """A worker process ended, or hung, in the middle of a batch. Its requests are tried once more;
    if it happens again look for what the system log says of its memory, or use fewer workers."""


class ProcessRunner:
    """A process that computes for one worker; a new one takes the place of one that died.

    One that says nothing for `hang_s` about a batch is killed.
    """

    def __init__(
        self, *, threads: int, hang_s: float, clock: Clock, memory_bytes: int | None = None
    ) -> None:
        """Starts the process, and does not wait for it. Raises WorkerDiedError."""
        self._threads = threads
        self._memory_bytes = memory_bytes
        self._hang_s = hang_s
        self._clock = clock
        self._process, self._channel = self._start()

    def __repr__(self) -> str:
        return f"<ProcessRunner {self.pid}>"

    @property
    def pid(self) -> int:
        return self._process.pid

    def run(self, jobs: Sequence[Job]) -> Ran:
        """Deal with `jobs`, which all have plans of the same bundle. Raises WorkerDiedError."""
        if self._process.poll() is not None:
            self._renew()
        taken_at = self._clock.now()
        report, buffers = self._ask(jobs)
        # What it took beyond the worker's own account is the way there and back.
        ran = Ran(spent=Spent(decoding=report.decoding, runs=report.runs))
        for done in report.done:
            count = len(done.tensors)
            payloads, buffers = buffers[:count], buffers[count:]
            ran.outcomes.append(_answer(jobs[done.number], done, payloads, taken_at))
        for undone in report.undone:
            job = jobs[undone.number]
            ran.outcomes.append(Failure(job=job, code=undone.code, message=undone.message))
        return ran

    def close(self) -> None:
        """End the process; what it may be computing is lost."""
        self._channel.close()
        try:
            self._process.wait(_CLOSING_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _ask(self, jobs: Sequence[Job]) -> tuple[Report, list[Buffer]]:
        plan = jobs[0].plan
        task = Task(
            folder=str(plan.folder),
            digest=plan.key.digest,
            cuts=[job.key.cut for job in jobs],
            pinned=plan.stage.pinned,
            tensors=[job.tensor for job in jobs],
        )
        try:
            self._channel.send(task, [job.payload for job in jobs])
            received = self._channel.receive(self._hang_s)
        except (EOFError, OSError) as error:
            raise self._died(f"it ended: {error or 'its pipe was closed'}") from None
        if received is None:
            raise self._died(f"it said nothing for {self._hang_s:g} s")
        return received

    def _died(self, how: str) -> WorkerDiedError:
        self._process.kill()
        dead, status = self.pid, self._process.wait()
        with suppress(WorkerDiedError):  # it is tried again with the next batch
            self._renew()
        return WorkerDiedError(f"worker process {dead}: {how}", status=status)

    def _renew(self) -> None:
        self._channel.close()
        self._process, self._channel = self._start()

    def _start(self) -> tuple["subprocess.Popen[bytes]", Channel[Report]]:
        try:
            with ExitStack() as half_made:
                near, far = Pipe()
                half_made.callback(near.close)
                with far:
                    out, into = Arena.create(), Arena.create()
                    half_made.callback(out.close)
                    half_made.callback(into.close)
                    process = self._spawn(far.fileno(), out.fileno(), into.fileno())
                half_made.pop_all()
        except OSError as error:
            raise WorkerDiedError(f"a worker process can't be started: {error}") from None
        log.info("worker process started", extra=fields(pid=process.pid))
        return process, Channel(near, out=out, into=into, receives=Report)

    def _spawn(self, *fds: int) -> "subprocess.Popen[bytes]":
        words = [sys.executable, "-m", "headtail_edge.worker_process"]
        return subprocess.Popen(  # noqa: S603 - our own interpreter and module
            [*words, *map(str, [*fds, self._threads, self._memory_bytes or 0])],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=fds,
        )


def _answer(job: Job, done: Done, payloads: Sequence[Buffer], taken_at: float) -> Answer:
    waited_us = max(0, round((taken_at - job.arrived_at) * 1e6))
    timings = done.timings
    return Answer(
        job=job,
        tensors=done.tensors,
        # The memory is the next batch's; what is sent must not change any more.
        payloads=tuple(bytes(payload) for payload in payloads),
        timings=Timings(
            queue_us=waited_us + timings.queue_us,
            decode_us=timings.decode_us,
            compute_us=timings.compute_us,
            post_us=timings.post_us,
        ),
    )
