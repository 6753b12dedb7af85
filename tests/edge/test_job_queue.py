"""The batcher between threads."""

import queue
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_doubles import SHARE, CountingMetrics, crossing, encoded, took
from headtail_edge.admission import Reason
from headtail_edge.batcher import Batch, Batcher
from headtail_edge.costs import Costs
from headtail_edge.job import Job
from headtail_edge.job_queue import JobQueue, Load
from headtail_edge.metrics import EdgeMetrics
from headtail_edge.plan import plans_of
from headtail_edge.spent import Spent
from headtail_fabric.clock import FakeClock
from headtail_models.bundle import Bundle

SESSION = b"s" * 16


class Bench:
    """A queue on a fake clock, and jobs to put in."""

    def __init__(self, bundle: Bundle, **batching: Any) -> None:
        self.clock = FakeClock()
        self.counted = CountingMetrics()
        costs = Costs()
        self.queue = JobQueue(
            Batcher[Job](**{"max_batch": 2, "queue_limit": 3, **batching}, costs=costs),
            costs=costs,
            workers=1,
            metrics=EdgeMetrics(self.counted),
            clock=self.clock,
        )
        self._plan = next(plan for plan in plans_of(bundle, threads=1) if plan.key.cut == "late")
        self._content = encoded(bundle, "late", crossing(bundle, "late"), "raw")

    def job(self, id: int, *, session: bytes = SESSION, deadline_at: float = 9.0) -> Job:
        tensor, payload = self._content
        return Job(
            session=session,
            id=id,
            plan=self._plan,
            tensor=tensor,
            payload=payload,
            arrived_at=self.clock.now(),
            deadline_at=deadline_at,
            share=SHARE,
        )


def test_the_load_follows_a_job_through_the_queue(specimen: Bundle) -> None:
    bench = Bench(specimen)
    assert bench.queue.put(bench.job(1)) is None
    assert bench.queue.load() == Load(waiting=1, running=0, queue_s=0.0)
    batch = bench.queue.take()
    assert batch is not None
    assert bench.queue.load() == Load(waiting=0, running=1, queue_s=0.05)
    assert bench.queue.load(done=batch) == Load(waiting=0, running=0, queue_s=0.0)
    bench.clock.advance(0.04)
    assert bench.queue.load().queue_s == pytest.approx(0.01)
    bench.queue.done(batch, took(batch, 0.2))
    bench.queue.put(bench.job(2))
    assert bench.queue.load() == Load(waiting=1, running=0, queue_s=0.0)
    bench.queue.put(bench.job(3))
    assert bench.queue.load().queue_s == pytest.approx(0.4, rel=0.01)


def test_hints_tell_the_load_in_the_wires_units() -> None:
    hints = Load(waiting=3, running=2, queue_s=0.1234).hints(batch=4)
    assert (hints.queue_ms, hints.batch, hints.active) == (123, 4, 5)
    assert Load(waiting=1, running=0, queue_s=1e9).hints().queue_ms == 86_400_000


def test_a_full_queue_refuses_until_something_expires(specimen: Bundle) -> None:
    bench = Bench(specimen, queue_limit=1)
    bench.queue.put(bench.job(1, deadline_at=1.0))
    assert bench.queue.put(bench.job(2)) is not None
    bench.clock.advance(1.0)
    assert bench.queue.put(bench.job(2)) is None
    assert bench.counted.totals["edge_requests"] == {("expired",): 1}


def test_cancelled_and_dropped_jobs_are_not_taken(specimen: Bundle) -> None:
    bench = Bench(specimen)
    one, two = bench.job(1), bench.job(2, session=b"t" * 16)
    bench.queue.put(one)
    bench.queue.put(two)
    assert bench.queue.cancel(SESSION, 1) is one
    assert bench.queue.drop_session(b"t" * 16) == [two]
    bench.queue.close()
    assert bench.queue.take() is None


def test_a_closed_queue_gives_out_what_waits_and_then_nothing(specimen: Bundle) -> None:
    bench = Bench(specimen)
    for id in (1, 2, 3):
        bench.queue.put(bench.job(id))
    bench.queue.close()
    sizes = []
    while (batch := bench.queue.take()) is not None:
        sizes.append(len(batch.jobs))
    assert sizes == [2, 1]


def test_an_abandoned_queue_names_every_job_that_was_not_answered(specimen: Bundle) -> None:
    bench = Bench(specimen, max_batch=1)
    for id in (1, 2, 3):
        bench.queue.put(bench.job(id))
    first = bench.queue.take()
    assert first is not None
    bench.queue.take()
    bench.queue.done(first, took(first, 0.1))
    assert sorted(job.id for job in bench.queue.abandon()) == [2, 3]
    assert bench.queue.abandon() == []
    assert bench.queue.take() is None


def test_repr_shows_what_waits_and_runs(specimen: Bundle) -> None:
    bench = Bench(specimen)
    bench.queue.put(bench.job(1))
    bench.queue.take()
    assert repr(bench.queue) == "<JobQueue <Batcher 0/3 waiting {}>, 1 batches running>"


def test_waiting_workers_are_woken_by_jobs_and_by_the_end(specimen: Bundle) -> None:
    bench = Bench(specimen, max_batch=1, queue_limit=100)
    taken: queue.Queue[Batch[Job] | None] = queue.Queue()

    def work() -> None:
        while (batch := bench.queue.take()) is not None:
            bench.queue.done(batch, Spent())
            taken.put(batch)
        taken.put(None)

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for id in range(50):
        bench.queue.put(bench.job(id))
    batches = [taken.get(timeout=10) for _ in range(50)]
    assert sorted(job.id for batch in batches if batch for job in batch.jobs) == list(range(50))
    bench.queue.close()
    assert [taken.get(timeout=10) for _ in workers] == [None] * 3
    for worker in workers:
        worker.join(timeout=10)
        assert not worker.is_alive()


def test_jobs_that_are_put_together_are_judged_one_after_the_other(specimen: Bundle) -> None:
    bench = Bench(specimen)
    jobs = [bench.job(id) for id in range(1, 6)]
    refused = bench.queue.put_all(jobs)
    assert list(refused) == jobs[3:]
    assert {one.reason for one in refused.values()} == {Reason.FULL}
    batch = bench.queue.take()
    assert batch is not None
    assert batch.jobs == tuple(jobs[:2])


def test_workers_wake_when_all_jobs_are_there(specimen: Bundle) -> None:
    bench = Bench(specimen, max_batch=8, queue_limit=8)
    taken: queue.SimpleQueue[Batch[Job] | None] = queue.SimpleQueue()
    worker = threading.Thread(target=lambda: taken.put(bench.queue.take()))
    worker.start()
    bench.queue.put_all([bench.job(id) for id in range(1, 6)])
    batch = taken.get(timeout=30)
    worker.join()
    assert batch is not None
    assert len(batch.jobs) == 5


_PUT = st.tuples(st.just("put"), st.sampled_from([0.05, 0.2, 0.3, 0.5, 0.8, 1.5]))
_WORK = st.tuples(st.just("work"), st.sampled_from([0.02, 0.1, 0.3]))
_PAUSE = st.tuples(st.just("pause"), st.sampled_from([0.01, 0.1, 1.2]))


@given(steps=st.lists(st.one_of(_PUT, _PUT, _PUT, _WORK, _PAUSE), max_size=60))
def test_what_was_found_of_the_last_job_never_decides_otherwise(
    specimen: Bundle, steps: list[tuple[str, float]]
) -> None:
    """Against a queue that looks at each job anew."""
    quick, thorough = (Bench(specimen, queue_limit=30) for _ in range(2))
    thorough.queue._admission.is_surely_in_time = lambda job, now: False  # type: ignore[method-assign]
    running: list[tuple[Batch[Job] | None, ...]] = []
    for number, (step, value) in enumerate(steps, start=1):
        if step == "put":
            refusals = [
                bench.queue.put(bench.job(number, deadline_at=bench.clock.now() + value))
                for bench in (quick, thorough)
            ]
            assert refusals[0] == refusals[1]
        elif step == "work" and running:
            for bench, batch in zip((quick, thorough), running.pop(), strict=True):
                assert batch is not None
                bench.queue.done(batch, took(batch, value))
        elif step == "work" and quick.queue.load().waiting:
            running.append((quick.queue.take(), thorough.queue.take()))
        elif step == "pause":
            quick.clock.advance(value)
            thorough.clock.advance(value)
