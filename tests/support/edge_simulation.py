"""An edge's queue under load, on a clock of its own: jobs come, wait, and are computed for as long
as a machine of known speed would take. The queue sees what it would see live, and nothing else."""

import heapq
import random
from dataclasses import dataclass

from edge_doubles import CountingMetrics, crossing, encoded, took
from headtail_edge.batcher import Batch, Batcher
from headtail_edge.costs import Costs
from headtail_edge.job import Job
from headtail_edge.job_queue import JobQueue
from headtail_edge.metrics import EdgeMetrics
from headtail_edge.mixing import MixedCuts
from headtail_edge.plan import plans_of
from headtail_edge.spent import Spent, Took
from headtail_edge.tenants import Flow
from headtail_fabric.clock import FakeClock
from headtail_models.bundle import Bundle

FIXED_S, EACH_S = 0.02, 0.01
"""What a batch takes, give or take a tenth; four jobs a batch make 66 a second a worker."""
SEGMENT_S = 0.002
"""What a run of the segment from `early` to `late` costs beside `EACH_S` a job; the whole tail from
`early` on takes `EACH_S` more a job than that from `late` on."""


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """One device's requests: so many a second, at random, each with that deadline."""

    device: str
    per_s: float
    deadline_s: float = 60.0
    weight: float = 1.0
    cut: str = "late"


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
        mixed_cuts: MixedCuts = "auto",
        seed: int = 0,
    ) -> None:
        self._draw = random.Random(seed)
        self._clock = FakeClock()
        self._admission = admission
        self._idle = workers
        costs = Costs()
        self._queue = JobQueue(
            Batcher[Job](
                max_batch=4,
                queue_limit=100_000,
                costs=costs,
                slack_s=slack_s,
                mixed_cuts=mixed_cuts,
            ),
            costs=costs,
            workers=workers,
            metrics=EdgeMetrics(CountingMetrics()),
            clock=self._clock,
        )
        self._plans = {plan.key.cut: plan for plan in plans_of(bundle, threads=1)}
        self._contents = {
            cut: encoded(bundle, cut, crossing(bundle, cut), "raw") for cut in ("early", "late")
        }
        self._fates: dict[int, Fate] = {}
        self._running: list[tuple[float, int, Batch[Job], Spent]] = []

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
        tensor, payload = self._contents[traffic.cut]
        job = Job(
            session=b"s",
            id=len(self._fates),
            plan=self._plans[traffic.cut],
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
        spent = self._spent(batch)
        took_s = sum(run.seconds for run in spent.runs)
        heapq.heappush(self._running, (now + took_s, batch.jobs[0].id, batch, spent))

    def _spent(self, batch: Batch[Job]) -> Spent:
        early = sum(job.key.cut == "early" for job in batch.jobs)
        if early in (0, len(batch.jobs)):
            seconds = FIXED_S + EACH_S * (len(batch.jobs) + early)
            return took(batch, self._about(seconds))
        segment, late = self._plans["early"].onward, self._plans["late"]
        assert segment is not None
        passing = Took(
            plan=segment.key.start,
            until=segment.key.until,
            jobs=early,
            gmacs=segment.gmacs,
            seconds=self._about(SEGMENT_S + EACH_S * early),
        )
        rest = Took(
            plan=late.key,
            jobs=len(batch.jobs),
            gmacs=late.gmacs,
            seconds=self._about(FIXED_S + EACH_S * len(batch.jobs)),
        )
        return Spent(runs=[passing, rest])

    def _about(self, seconds: float) -> float:
        return seconds * self._draw.uniform(0.9, 1.1)

    def _finish(self) -> None:
        ended_at, _, batch, spent = heapq.heappop(self._running)
        self._clock.advance(ended_at - self._clock.now())
        self._queue.done(batch, spent)
        self._idle += 1
        for job in batch.jobs:
            fate = self._fates[job.id]
            fate.took_s = ended_at - job.arrived_at
            fate.in_time = ended_at < job.deadline_at
