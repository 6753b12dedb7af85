"""Worker processes that are real: what they answer, and what happens when they die."""

import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

from edge_doubles import SHARE, crossing, encoded
from headtail_edge.job import Job
from headtail_edge.plan import plans_of
from headtail_edge.process_runner import ProcessRunner, WorkerDiedError
from headtail_edge.tail_runner import Answer, Failure, TailRunner
from headtail_fabric.clock import MonotonicClock
from headtail_fabric.peer.events import Answered, ClientEvent, Connected
from headtail_fabric.peer.zmq_client import ZmqClient
from headtail_fabric.wire import ErrorCode
from headtail_models.bundle import Bundle, open_bundle
from headtail_models.bundle.specimen import write_specimen
from processes import PATIENCE_S, Headtail, wait_until

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return open_bundle(write_specimen(tmp_path_factory.mktemp("bundles") / "specimen"))


@pytest.fixture
def runner() -> Iterator[ProcessRunner]:
    made = ProcessRunner(threads=1, hang_s=PATIENCE_S, clock=MonotonicClock())
    yield made
    made.close()


def jobs(bundle: Bundle, count: int) -> list[Job]:
    plan = next(plan for plan in plans_of(bundle, threads=1) if plan.key.cut == "late")
    made = []
    for number in range(count):
        tensor, payload = encoded(bundle, "late", crossing(bundle, "late", seed=number), "raw")
        job = Job(
            session=b"s",
            id=number,
            plan=plan,
            tensor=tensor,
            payload=payload,
            arrived_at=MonotonicClock().now(),
            deadline_at=float("inf"),
            share=SHARE,
        )
        made.append(job)
    return made


def test_a_process_answers_as_a_thread_does(bundle: Bundle, runner: ProcessRunner) -> None:
    batch = jobs(bundle, 3)
    batch.append(structs.replace(batch[0], id=3, payload=b"nonsense"))
    here, there = TailRunner(clock=MonotonicClock()).run(batch), runner.run(batch)
    assert len(there.outcomes) == 4
    expected = {outcome.job.id: outcome for outcome in here.outcomes}
    for outcome in there.outcomes:
        reference = expected[outcome.job.id]
        if isinstance(outcome, Answer):
            assert isinstance(reference, Answer)
            assert outcome.tensors == reference.tensors
            for one, other in zip(outcome.payloads, reference.payloads, strict=True):
                np.testing.assert_array_equal(
                    np.frombuffer(one, np.uint8), np.frombuffer(other, np.uint8)
                )
        else:
            assert isinstance(reference, Failure)
            assert outcome.code is reference.code is ErrorCode.BAD_PAYLOAD
    assert len(there.spent.decoding) == 3
    assert [(took.key, took.jobs) for took in there.spent.runs] == [(batch[0].key, 3)]


def test_a_process_that_is_killed_between_batches_is_replaced(
    bundle: Bundle, runner: ProcessRunner
) -> None:
    runner.run(jobs(bundle, 1))
    first = runner.pid
    os.kill(first, signal.SIGKILL)
    os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
    assert isinstance(runner.run(jobs(bundle, 1)).outcomes[0], Answer)
    assert runner.pid != first


def test_a_process_that_is_killed_in_a_batch_is_an_error_and_the_next_batch_is_computed(
    bundle: Bundle, runner: ProcessRunner
) -> None:
    runner.run(jobs(bundle, 1))
    os.kill(runner.pid, signal.SIGSTOP)
    killing = threading.Timer(0.2, os.kill, (runner.pid, signal.SIGKILL))
    killing.start()
    with pytest.raises(WorkerDiedError, match="it ended"):
        runner.run(jobs(bundle, 2))
    assert len(runner.run(jobs(bundle, 2)).outcomes) == 2


def test_a_process_that_hangs_is_killed(bundle: Bundle) -> None:
    runner = ProcessRunner(threads=1, hang_s=0.3, clock=MonotonicClock())
    stuck = runner.pid
    os.kill(stuck, signal.SIGSTOP)
    with pytest.raises(WorkerDiedError, match=r"it said nothing for 0\.3 s"):
        runner.run(jobs(bundle, 1))
    with pytest.raises(ProcessLookupError):
        os.kill(stuck, 0)
    runner.close()


def test_a_bundle_that_is_gone_fails_its_requests_only(
    tmp_path: Path, bundle: Bundle, runner: ProcessRunner
) -> None:
    (job,) = jobs(bundle, 1)
    lost = structs.replace(job, plan=replace(job.plan, folder=tmp_path / "nowhere"))
    (failure,) = runner.run([lost]).outcomes
    assert isinstance(failure, Failure)
    assert "can't open the bundle" in failure.message
    assert isinstance(runner.run([job]).outcomes[0], Answer)


def children(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(word) for word in listed.read_text().split()]


def collect(client: ZmqClient, count: int) -> list[ClientEvent]:
    events: list[ClientEvent] = []
    while len(events) < count:
        event = client.poll(PATIENCE_S)
        assert event is not None, f"{len(events)} of {count} events in time"
        events.append(event)
    return events


def test_requests_in_a_worker_that_dies_are_answered_by_another(
    bundle: Bundle, tmp_path: Path
) -> None:
    if not Path("/proc/self/task").exists():
        pytest.skip("the workers are found through /proc")
    config = tmp_path / "edge.toml"
    config.write_text('worker_kind = "process"\nworkers = 2\n')
    words: list[str | Path] = ["edge", "serve", "--bind", "tcp://127.0.0.1:0", "--config", config]
    with Headtail(*words, "--bundle", bundle.path) as edge:
        endpoint = edge.ready()["endpoint"]
        wait_until(lambda: len(children(edge.process.pid)) == 2, "two workers")
        workers = children(edge.process.pid)
        with ZmqClient(endpoint, name="cam") as client:
            assert isinstance(client.poll(PATIENCE_S), Connected)
            for worker in workers:
                os.kill(worker, signal.SIGSTOP)
            tensor, payload = encoded(bundle, "late", crossing(bundle, "late"), "raw")
            for _ in range(12):
                client.submit(
                    bundle=bundle.digest,
                    cut="late",
                    tensors=[tensor],
                    payloads=[payload],
                    deadline_s=PATIENCE_S,
                )
            assert client.poll(0.5) is None
            for worker in workers:
                os.kill(worker, signal.SIGKILL)
            assert {type(event) for event in collect(client, 12)} == {Answered}
        assert edge.terminate() == 0
        errors = edge.errors()
    assert errors.count("worker died") == 2
