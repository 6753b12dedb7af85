"""Workers answer every job of a batch, whatever happens in it."""

import logging
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from edge_doubles import Rig, events, send
from headtail_edge import worker as worker_module
from headtail_edge.job import Job
from headtail_edge.tail_runner import Answer, Failure, TailRunner
from headtail_edge.worker import Worker, WorkerPool
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
    assert {(a.hints.batch, a.hints.active, a.hints.queue_ms) for a in answers} == {(3, 3, 0)}
    assert rig.requests == {"answered": 3}


def test_a_runner_that_breaks_in_a_batch_fails_what_it_had_not_answered(
    specimen: Bundle,
    specimen_path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Breaking(TailRunner):
        def run(self, jobs: Sequence[Job]) -> Iterator[Answer | Failure]:
            outcomes = super().run(jobs)
            yield next(outcomes)
            raise RuntimeError("a bug")

    monkeypatch.setattr(worker_module, "TailRunner", Breaking)
    rig = Rig(tmp_path, specimen_path)
    device = rig.device()
    for seed in range(3):
        send(device, specimen, seed=seed)
    with caplog.at_level(logging.CRITICAL):
        rig.step()
    first, *others = events(device)
    assert isinstance(first, Answered)
    assert [(e.code, e.message) for e in others if isinstance(e, Failed)] == [
        (ErrorCode.INTERNAL, "the edge failed")
    ] * 2
    assert rig.requests == {"answered": 1, "failed": 2}
    send(device, specimen)
    assert rig.queue.load().running == 0


def test_a_pool_works_until_the_queue_is_closed_and_empty(
    specimen: Bundle, specimen_path: Path, tmp_path: Path
) -> None:
    rig = Rig(tmp_path, specimen_path, queue_limit=100)
    served: list[int] = []

    class Quiet(Worker):
        def serve(self, batch: Any) -> None:
            served.extend(job.id for job in batch.jobs)
            rig.queue.done(batch, 0.0)

    device = rig.device()
    for seed in range(10):
        send(device, specimen, seed=seed)
    rig.receive()
    pool = WorkerPool(
        Quiet(queue=rig.queue, port=rig.port, metrics=rig.metrics, clock=rig.clock)
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
