"""An edge's queue under load, on a clock of its own: jobs come, wait, and are computed for as long
as a machine of known speed would take. The queue sees what it would see live, and nothing else."""

import heapq
import random
from dataclasses import dataclass

from edge_doubles import CountingMetrics, crossing, encoded
from headtail_edge.batcher import Batch, Batcher
from headtail_edge.costs import Costs
from headtail_edge.job import Job
from headtail_edge.job_queue import JobQueue
from headtail_edge.metrics import EdgeMetrics
from headtail_edge.plan import plans_of
from headtail_edge.tail_runner import Spent
from headtail_edge.tenants import Flow
from headtail_fabric.clock import FakeClock
from headtail_models.bundle import Bundle

FIXED_S, EACH_S = 0.02, 0.01
"""What a batch takes, give or take a tenth; four jobs a batch make 66 a second a worker."""


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """One device's requests: so many a second, at random, each with that deadline."""

    device: str
    per_s: float
    deadline_s: float = 60.0
    weight: float = 1.0


@dataclass(kw_only=True)
class Fate:
    """What became of one request; times in seconds from its arrival. `said_s` is the queue that
    the edge told of just then."""

    device: str
    said_s: float
    refused: bool = False
    waited_s: float | None = None
    took_s: float | None = None
    in_time: bool = False


class EdgeSimulation:
    """A queue for `workers` workers. Without `admission` every request may wait."""

    def __init__(
        self,
        bundle: Bundle,
        *,
        workers: int = 1,
        admission: bool = True,
        slack_s: float = 0.1,
        seed: int = 0,
    ) -> None:
        self._draw = random.Random(seed)
        self._clock = FakeClock()
        self._admission = admission
        self._idle = workers
        costs = Costs()
        self._queue = JobQueue(
            Batcher[Job](max_batch=4, queue_limit=100_000, costs=costs, slack_s=slack_s),
            costs=costs,
            workers=workers,
            metrics=EdgeMetrics(CountingMetrics()),
            clock=self._clock,
        )
        self._plan = next(p for p in plans_of(bundle, threads=1) if p.key.cut == "late")
        self._content = encoded(bundle, "late", crossing(bundle, "late"), "raw")
        self._fates: dict[int, Fate] = {}
        self._running: list[tuple[float, int, Batch[Job], float]] = []

    def run(self, traffics: list[Traffic], *, seconds: float) -> list[Fate]:
        """Requests for that long, then the rest of the work; all of them in order of arrival."""
        arrivals = sorted(
            (
                (at, number)
                for number, one in enumerate(traffics)
                for at in self._times(one, seconds)
            ),
            reverse=True,
        )
        while arrivals or self._running:
            if arrivals and (not self._running or arrivals[-1][0] <= self._running[0][0]):
                at, number = arrivals.pop()
                self._clock.advance(at - self._clock.now())
                self._arrive(traffics[number])
            else:
                self._finish()
            while self._idle and self._queue.load().waiting:
                self._start()
        return list(self._fates.values())

    def _times(self, traffic: Traffic, seconds: float) -> list[float]:
        times, at = [], 0.0
        while (at := at + self._draw.expovariate(traffic.per_s)) < seconds:
            times.append(at)
        return times

    def _arrive(self, traffic: Traffic) -> None:
        now = self._clock.now()
        tensor, payload = self._content
        job = Job(
            session=b"s",
            id=len(self._fates),
            plan=self._plan,
            tensor=tensor,
            payload=payload,
            arrived_at=now,
            deadline_at=now + traffic.deadline_s,
            share=Flow(name=traffic.device, weight=traffic.weight, quota=100_000, rate=None),
        )
        said_s = self._queue.load().hints().queue_ms / 1000
        fate = self._fates[job.id] = Fate(device=traffic.device, said_s=said_s)
        if self._admission:
            fate.refused = self._queue.put(job) is not None
        else:
            self._queue.put_back(job)

    def _start(self) -> None:
        batch = self._queue.take()
        assert batch is not None
        self._idle -= 1
        now = self._clock.now()
        for job in batch.jobs:
            self._fates[job.id].waited_s = now - job.arrived_at
        took_s = (FIXED_S + EACH_S * len(batch.jobs)) * self._draw.uniform(0.9, 1.1)
        heapq.heappush(self._running, (now + took_s, batch.jobs[0].id, batch, took_s))

    def _finish(self) -> None:
        ended_at, _, batch, took_s = heapq.heappop(self._running)
        self._clock.advance(ended_at - self._clock.now())
        self._queue.done(batch, Spent(computing_s=took_s, jobs=len(batch.jobs)))
        self._idle += 1
        for job in batch.jobs:
            fate = self._fates[job.id]
            fate.took_s = ended_at - job.arrived_at
            fate.in_time = ended_at < job.deadline_at
