"""When a tail would be done, if it were taken."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from headtail_cloud.core.job import Job, TailJob
from headtail_cloud.core.request import Segment, TailRequest
from headtail_cloud.core.resources import Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class TailForecast:
    """Of one request, among the `tails` that are here. `step_left_s`: of the running iteration."""

    request: TailRequest
    tails: Sequence[TailJob]
    step_left_s: float
    now: float
    resources: Resources

    @property
    def due_at(self) -> float:
        return self.now + self.request.deadline_s

    def end_s(self, chain: Sequence[Segment]) -> float:
        """From now to its answer, along that chain.

        Where it has to wait it leaves time for a whole batch (`Resources.batch`).
        """
        ahead = items_of(self._before())
        if not ahead and self.step_left_s == 0:
            return self.resources.chain_s(chain)
        return self.step_left_s + self._batches_s(
            ahead + Counter(chain), chain, self.request.deadline_s
        )

    def leaves_room(self, chain: Sequence[Segment]) -> bool:
        """Whether its tenant's tails that were accepted and are due later stay in time."""
        behind = [
            job
            for job in self.tails
            if job.tenant == self.request.tenant
            and job.request.priority <= self.request.priority
            and job.deadline_at > self.due_at
            and not job.in_step
        ]
        work = items_of(self._before()) + Counter(chain) if behind else Counter()
        for job in sorted(behind, key=_by_deadline):
            work += Counter(job.to_run)
            end_s = self.step_left_s + self._batches_s(work, job.to_run, job.request.deadline_s)
            if end_s > job.deadline_at - self.now:
                return False
        return True

    def _before(self) -> Iterator[TailJob]:
        """Those that are served before it: more important ones, its tenant's that are due earlier,
        and in the same number of turns as many of each other tenant's."""
        yield from (job for job in self.tails if job.request.priority > self.request.priority)
        equals = [
            job
            for job in self.tails
            if job.request.priority == self.request.priority
            and (job.tenant != self.request.tenant or job.deadline_at <= self.due_at)
        ]
        turns = 1 + sum(job.tenant == self.request.tenant for job in equals)
        taken: Counter[str] = Counter()
        for job in sorted(equals, key=_by_deadline):
            if taken[job.tenant] < turns:
                taken[job.tenant] += 1
                yield job

    def _batches_s(
        self, items: Counter[Segment], chain: Sequence[Segment], deadline_s: float
    ) -> float:
        batch = self.resources.batch(chain, deadline_s)
        return self.resources.items_s(items, batch=batch)


def tails_of(jobs: Iterable[Job]) -> list[TailJob]:
    """The tails among them."""
    return [job for job in jobs if isinstance(job, TailJob)]


def items_of(tails: Iterable[TailJob]) -> Counter[Segment]:
    """What they still have to run."""
    return Counter(segment for job in tails for segment in job.to_run)


def _by_deadline(job: TailJob) -> tuple[float, int]:
    return job.deadline_at, job.number
