"""An iteration while it is being put together."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from headtail_cloud.core.job import Job
from headtail_cloud.core.request import Segment
from headtail_cloud.core.task import Task
from headtail_cloud.core.work import Work, chunk_work


class Draft:
    """Tasks that fit a time budget, and a token budget if there is one. The first task always
    fits: an iteration that does nothing helps nobody."""

    def __init__(
        self, *, budget_s: float, token_budget: int | None, estimate: Callable[[Work], float]
    ) -> None:
        self.budget_s = budget_s
        self.tasks: list[Task] = []
        self.jobs: dict[Job, None] = {}
        self.estimate_s = 0.0
        self._tokens = token_budget
        self._estimate = estimate
        self._work = Work()
        self._kept = Work()

    def __repr__(self) -> str:
        return (
            f"<Draft {len(self.tasks)} tasks, "
            f"{1000 * self.estimate_s:.3g} of {1000 * self.budget_s:.3g} ms>"
        )

    def items(self, segment: Segment) -> int:
        """How many of its batch there are."""
        return self._work.items.get(segment, 0)

    def fits(self, work: Work) -> bool:
        if self._tokens is not None and self._work.tokens + work.tokens > self._tokens:
            return False
        return not self.tasks or self._within(work.plus(self._kept))

    @contextmanager
    def keeping(self, work: Work) -> Iterator[None]:
        """Room for that, until it is left."""
        self._kept = work
        yield
        self._kept = Work()

    def largest_chunk(self, start: int, remaining: int, *, least: int) -> int:
        """The most of the `remaining` tokens of a prompt, from position `start`, that fit; 0 when
        that is less than `least` and there is something to do without it."""
        tokens = remaining
        if self._tokens is not None:
            tokens = min(tokens, self._tokens - self._work.tokens)
        if tokens < 1:
            return 0
        if self._within(chunk_work(start, tokens, last=tokens == remaining)):
            return tokens
        low, high = 0, tokens
        while high - low > 1:
            middle = (low + high) // 2
            fits = self._within(chunk_work(start, middle, last=False))
            low, high = (middle, high) if fits else (low, middle)
        if low >= least:
            return low
        return 0 if self.tasks else min(least, tokens)

    def tighten(self, budget_s: float) -> None:
        """Something that was left out needs the next iteration to begin earlier."""
        self.budget_s = min(self.budget_s, max(budget_s, self.estimate_s))

    def add(self, job: Job, task: Task) -> None:
        self.tasks.append(task)
        self.jobs[job] = None
        self._work = self._work.plus(task.work)
        self.estimate_s = self._estimate(self._work)

    def _within(self, work: Work) -> bool:
        return self._estimate(self._work.plus(work)) <= self.budget_s
