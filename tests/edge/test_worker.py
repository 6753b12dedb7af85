"""Workers answer every job of a batch, whatever happens in it."""

import logging
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from edge_doubles import Rig, crossing, encoded, events, send
from headtail_edge.job import Job
from headtail_edge.process_runner import WorkerDiedError
from headtail_edge.spent import Spent
from headtail_edge.tail_runner import Ran, TailRunner
from headtail_edge.worker import Worker, WorkerPool
from headtail_fabric.clock import FakeClock
from headtail_fabric.peer.events import Answered, Failed
from headtail_fabric.wire import ErrorCode
from headtail_models.bundle import Bundle


def test_answers_carry_the_batch_and_the_load(
    specimen: Bundle, specimen_path: Path, tmp_path: Path
) -> None:
    rig = Rig(tmp_path, specimen_path)
    device = rig.device()
    for seed in range(3):
        send(device, specimen, seed=seed)
    rig.step()
    answers = [event for event in events(device) if isinstance(event, Answered)]
    assert [answer.id for answer in answers] == [1, 2, 3]
    assert {(a.hints.batch, a.hints.active, a.hints.queue_ms) for a in answers} == {(3, 0, 0)}
    assert rig.requests == {"answered": 3}


def test_a_runner_that_breaks_fails_its_batch(
    specimen: Bundle,
    specimen_path: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Breaking(TailRunner):
        def run(self, jobs: Sequence[Job]) -> Ran:
            raise RuntimeError("a bug")

    rig = Rig(tmp_path, specimen_path)
    rig.run_with(Breaking(clock=rig.clock))
    device = rig.device()
    for seed in range(3):
        send(device, specimen, seed=seed)
    with caplog.at_level(logging.CRITICAL):
        rig.step()
    assert [(e.code, e.message) for e in events(device) if isinstance(e, Failed)] == [
        (ErrorCode.INTERNAL, "the edge failed")
    ] * 3
    assert rig.requests == {"failed": 3}
    send(device, specimen)
    assert rig.queue.load().running == 0


class DyingRunner(TailRunner):
    """Its process dies of every batch with a request whose payload is that of `poison`."""

    def __init__(self, clock: FakeClock, poison: bytes) -> None:
        super().__init__(clock=clock)
        self._poison = poison
        self.batches: list[list[int]] = []

    def run(self, jobs: Sequence[Job]) -> Ran:
        self.batches.append([job.id for job in jobs])
        if any(bytes(job.payload) == self._poison for job in jobs):
            raise WorkerDiedError("worker process 7: it ended")
        return super().run(jobs)


def test_who_was_in_a_batch_that_killed_its_worker_is_tried_once_more_and_alone(
    specimen: Bundle,
    specimen_path: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig = Rig(tmp_path, specimen_path)
    _, poison = encoded(specimen, "late", crossing(specimen, "late", seed=1), "raw")
    runner = DyingRunner(rig.clock, bytes(poison))
    rig.run_with(runner)
    device = rig.device()
    for seed in range(3):
        send(device, specimen, seed=seed)
    with caplog.at_level(logging.CRITICAL):
        rig.step()
    assert runner.batches == [[1, 2, 3], [1], [2], [3]]
    found = {e.id: e for e in events(device) if isinstance(e, Answered | Failed)}
    assert isinstance(found[1], Answered)
    assert isinstance(found[3], Answered)
    assert found[2] == Failed(
        id=2,
        code=ErrorCode.INTERNAL,
        message="the edge's workers died of this request",
    )
    assert rig.requests == {"answered": 2, "failed": 1}
    assert rig.counted.totals["edge_worker_deaths"] == {(): 2}
    assert rig.queue.load().running == 0


def test_what_is_retried_may_still_be_cancelled_or_expire(
    specimen: Bundle, specimen_path: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rig = Rig(tmp_path, specimen_path)
    _, poison = encoded(specimen, "late", crossing(specimen, "late", seed=0), "raw")
    rig.run_with(DyingRunner(rig.clock, bytes(poison)))
    device = rig.device()
    cancelled = send(device, specimen, seed=0)
    send(device, specimen, seed=1, deadline_s=0.5)
    rig.receive()
    batch = rig.queue.take()
    assert batch is not None
    with caplog.at_level(logging.CRITICAL):
        rig.worker.serve(batch)
    assert rig.queue.load().waiting == 2
    device.cancel(cancelled)
    rig.clock.advance(0.6)
    rig.step()
    assert rig.requests == {"cancelled": 1, "expired": 1}


def test_a_pool_works_until_the_queue_is_closed_and_empty(
    specimen: Bundle, specimen_path: Path, tmp_path: Path
) -> None:
    rig = Rig(tmp_path, specimen_path, queue_limit=100)
    served: list[int] = []

    class Quiet(Worker):
        def serve(self, batch: Any) -> None:
            served.extend(job.id for job in batch.jobs)
            rig.queue.done(batch, Spent())

    device = rig.device()
    for seed in range(10):
        send(device, specimen, seed=seed)
    rig.receive()
    pool = WorkerPool(
        Quiet(
            queue=rig.queue,
            port=rig.port,
            runner=TailRunner(clock=rig.clock),
            metrics=rig.metrics,
            clock=rig.clock,
        )
        for _ in range(2)
    )
    assert not pool.alive
    pool.start()
    rig.queue.close()
    for thread in threading.enumerate():
        if thread.name.startswith("tail-"):
            thread.join(timeout=10.0)
    assert not pool.alive
    assert sorted(served) == list(range(1, 11))
