"""The iteration that the engine works on."""

from collections.abc import Sequence

from headtail_cloud.core.actions import Step
from headtail_cloud.core.job import Job, TextJob
from headtail_cloud.core.task import Task


class RunningStep:
    """From its start to its end its jobs are marked as being in it."""

    def __init__(self, step: Step, jobs: Sequence[Job], now: float) -> None:
        self.step = step
        self.jobs = tuple(jobs)
        self._started_at = now
        for job, task in zip(self.jobs, step.tasks, strict=True):
            _mark(job, task, now)

    def __repr__(self) -> str:
        return f"step {self.step.id} of {len(self.jobs)}"

    def left_s(self, now: float) -> float:
        """How long it should still take."""
        return max(0.0, self._started_at + self.step.estimate_s - now)

    def end(self) -> None:
        """Its jobs are in it no more."""
        for job in self.jobs:
            job.in_step = False
            if isinstance(job, TextJob):
                job.in_flight = 0


def _mark(job: Job, task: Task, now: float) -> None:
    job.in_step = True
    if isinstance(job, TextJob):
        job.in_flight = task.work.tokens
    job.last_run_at = now
    if job.started_at is None:
        job.started_at = now
