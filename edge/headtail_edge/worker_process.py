"""What a worker process does: batches in, outcomes out, until the edge that started it is gone.

It is started by `process_runner` as `python -m headtail_edge.worker_process`, with the numbers of
the pipe and the memories that it has inherited. It opens bundles by itself, by their folders.
"""

import signal
import sys
from collections import OrderedDict
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

import msgspec

from headtail_edge.job import Job
from headtail_edge.plan import PlanKey, TailPlan, plans_of
from headtail_edge.shared_memory import Arena, Channel
from headtail_edge.spent import Took
from headtail_edge.stage_memory import StageMemory
from headtail_edge.tail_runner import Answer, Ran, TailRunner
from headtail_edge.tenants import Flow
from headtail_fabric import logs
from headtail_fabric.clock import Clock, MonotonicClock
from headtail_fabric.errors import HeadtailError
from headtail_fabric.wire import Buffer, ErrorCode, TensorInfo, Timings
from headtail_models.bundle.errors import BundleError
from headtail_models.bundle.reader import open_bundle

_KEPT_BUNDLES: Final = 8
_NOBODY: Final = Flow(name="", weight=1.0, quota=1, rate=None)


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """Compute these payloads, each at a cut of the bundle in that folder; one buffer each."""

    folder: str
    digest: bytes
    cuts: list[str]
    pinned: bool
    tensors: list[TensorInfo]


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """An answer to the payload of that number; its tensors' buffers follow those before it.
    `timings` begin when the task came."""

    number: int
    tensors: tuple[TensorInfo, ...]
    timings: Timings


class Undone(msgspec.Struct, frozen=True, kw_only=True):
    """Why the payload of that number has no answer."""

    number: int
    code: ErrorCode
    message: str


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a task; for the times see `spent.Spent`."""

    done: list[Done] = []
    undone: list[Undone] = []
    decoding: list[tuple[PlanKey, str, float]] = []
    runs: list[Took] = []


class _Plans:
    """Plans of the bundles that were asked for last."""

    def __init__(self, *, threads: int, memory_bytes: int | None) -> None:
        self._threads = threads
        self._memory = StageMemory(memory_bytes)
        self._bundles: OrderedDict[bytes, dict[PlanKey, TailPlan]] = OrderedDict()

    def get(self, task: Task) -> list[TailPlan]:
        """One a payload. Raises what opening a bundle raises."""
        plans = self._bundles.get(task.digest)
        if plans is None:
            bundle = open_bundle(Path(task.folder))
            if bundle.digest != task.digest:
                raise BundleError(f"{bundle!r} lies where {task.digest.hex()[:12]} was")
            plans = {
                plan.key: plan
                for plan in plans_of(
                    bundle, threads=self._threads, memory=self._memory, pinned=task.pinned
                )
            }
            self._bundles[task.digest] = plans
            if len(self._bundles) > _KEPT_BUNDLES:
                for plan in self._bundles.popitem(last=False)[1].values():
                    plan.forget()
        self._bundles.move_to_end(task.digest)
        return [plans[PlanKey(task.digest, cut)] for cut in task.cuts]


def serve(channel: Channel[Task], *, threads: int, memory_bytes: int | None, clock: Clock) -> None:
    """Compute until the other end is gone."""
    plans, runner = _Plans(threads=threads, memory_bytes=memory_bytes), TailRunner(clock=clock)
    while True:
        try:
            received = channel.receive(None)
        except EOFError:
            return
        assert received is not None, "only a time-out gives None"
        task, payloads = received
        came_at = clock.now()
        try:
            asked = plans.get(task)
        except HeadtailError as error:
            message = f"the worker can't open the bundle: {error.message}"[:512]
            undone = [
                Undone(number=number, code=ErrorCode.INTERNAL, message=message)
                for number in range(len(task.tensors))
            ]
            channel.send(Report(undone=undone), [])
        else:
            jobs = [
                Job(
                    session=b"",
                    id=number,
                    plan=plan,
                    tensor=tensor,
                    payload=payload,
                    arrived_at=came_at,
                    deadline_at=float("inf"),
                    share=_NOBODY,
                )
                for number, (plan, tensor, payload) in enumerate(
                    zip(asked, task.tensors, payloads, strict=True)
                )
            ]
            channel.send(*_report(runner.run(jobs)))


def _report(ran: Ran) -> tuple[Report, Sequence[Buffer]]:
    buffers: list[Buffer] = []
    done, undone = [], []
    for outcome in ran.outcomes:
        number = outcome.job.id
        if isinstance(outcome, Answer):
            done.append(Done(number=number, tensors=outcome.tensors, timings=outcome.timings))
            buffers += outcome.payloads
        else:
            undone.append(Undone(number=number, code=outcome.code, message=outcome.message))
    report = Report(
        done=done,
        undone=undone,
        decoding=ran.spent.decoding,
        runs=ran.spent.runs,
    )
    return report, buffers


def main(words: Sequence[str]) -> None:
    """The process's work; `words` are the numbers that `process_runner` gives."""
    # The edge decides when its workers end: it finishes what it has accepted first.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    logs.configure(level="warning", log_format="text")
    pipe, into, out, threads, memory_bytes = map(int, words)
    channel = Channel(Connection(pipe), out=Arena(out), into=Arena(into), receives=Task)
    serve(channel, threads=threads, memory_bytes=memory_bytes or None, clock=MonotonicClock())


if __name__ == "__main__":
    main(sys.argv[1:])
