"""Which waiting requests are computed next, and together: the core, without threads or tensors.

Jobs wait in one line a key (a bundle and a cut: what one run of a stage can take together).

    order       earliest deadline first; at equal deadlines, in order of arrival
    which line  the one whose first job comes first in that same order, so no line starves
    how many    up to `max_batch`; when several workers are idle the line is shared among them
    when        at once (greedy), or with `max_wait_s` when the batch is full or its oldest job
                has waited that long, but never so long that its first deadline is missed

Every accepted job leaves exactly once: batched, expired, cancelled or dropped.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

_NEWEST_WEIGHT: Final = 0.2
"""Weight of the newest measurement in the moving average of service times."""

_FIRST_GUESS_S: Final = 0.05
"""Service time of a job before any was measured."""


class Waiting(Protocol):
    """What the batcher needs to know of a job; times are of the caller's clock, in seconds."""

    @property
    def key(self) -> Hashable: ...
    @property
    def session(self) -> bytes: ...
    @property
    def id(self) -> int: ...
    @property
    def arrived_at(self) -> float: ...
    @property
    def deadline_at(self) -> float: ...


JobT = TypeVar("JobT", bound=Waiting)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Batch(Generic[JobT]):
    """Jobs of one key to compute together, in the order they were chosen; never empty."""

    key: Hashable
    jobs: tuple[JobT, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The queue is full; all that waits in it now should be served `retry_after_s` from now."""

    retry_after_s: float


class Batcher(Generic[JobT]):
    """The lines of waiting jobs. Not thread-safe; never looks at a clock."""

    def __init__(
        self, *, max_batch: int, queue_limit: int, workers: int, max_wait_s: float = 0.0
    ) -> None:
        if min(max_batch, queue_limit, workers) < 1 or max_wait_s < 0:
            raise ValueError("a batcher needs room for one job and one worker")
        self._max_batch = max_batch
        self._queue_limit = queue_limit
        self._workers = workers
        self._max_wait_s = max_wait_s
        self._lines: dict[Hashable, _Line[JobT]] = {}
        self._places: dict[bytes, dict[int, tuple[Hashable, _Place]]] = {}
        self._service_s: dict[Hashable, float] = {}
        self._waiting = 0
        self._sequence = 0

    def __len__(self) -> int:
        return self._waiting

    def __repr__(self) -> str:
        lines = ", ".join(f"{key!r}: {len(line)}" for key, line in self._lines.items())
        return f"<Batcher {self._waiting}/{self._queue_limit} waiting {{{lines}}}>"

    def add(self, job: JobT) -> Refusal | None:
        """Put `job` in its line, or refuse it when the queue is full.

        Raises ValueError when the same request of the same session waits already.
        """
        if self._waiting >= self._queue_limit:
            return Refusal(retry_after_s=self.backlog_s())
        places = self._places.setdefault(job.session, {})
        if job.id in places:
            raise ValueError(f"request {job.id} waits already")
        place = (job.deadline_at, self._sequence)
        places[job.id] = (job.key, place)
        self._lines.setdefault(job.key, _Line()).insert(place, job)
        self._sequence += 1
        self._waiting += 1
        return None

    def next_batch(self, now: float, idle_workers: int) -> Batch[JobT] | None:
        """What one of `idle_workers` workers (at least 1) should compute now, if anything.

        Jobs whose deadline is over are never batched: they stay until `expire` takes them.
        """
        ready = [
            (line.places[overdue], key, overdue)
            for key, line in self._lines.items()
            if (overdue := line.overdue(now)) < len(line) and self._may_go(key, line, overdue, now)
        ]
        if not ready:
            return None
        _, key, overdue = min(ready, key=lambda item: item[0])
        line = self._lines[key]
        share = -(-(len(line) - overdue) // idle_workers)
        jobs = line.take(overdue, overdue + min(share, self._max_batch))
        self._forget(jobs)
        return Batch(key=key, jobs=tuple(jobs))

    def next_timer(self) -> float | None:
        """When `expire` or `next_batch` may have something new to say though nothing happens."""
        times = [line.places[0][0] for line in self._lines.values()]
        if self._max_wait_s > 0:
            times += [self._hold_until(key, line, 0) for key, line in self._lines.items()]
        return min(times, default=None)

    def expire(self, now: float) -> list[JobT]:
        """Take out the jobs whose deadline is over (at `deadline_at` exactly it is)."""
        expired: list[JobT] = []
        for line in list(self._lines.values()):
            if overdue := line.overdue(now):
                expired += line.take(0, overdue)
        self._forget(expired)
        return expired

    def cancel(self, session: bytes, job_id: int) -> JobT | None:
        """Take out one job, if it still waits."""
        found = self._places.get(session, {}).get(job_id)
        if found is None:
            return None
        key, place = found
        job = self._lines[key].remove(place)
        self._forget([job])
        return job

    def drop_session(self, session: bytes) -> list[JobT]:
        """Take out all jobs of a session."""
        jobs = [
            self._lines[key].remove(place) for key, place in self._places.get(session, {}).values()
        ]
        self._forget(jobs)
        return jobs

    def drop_all(self) -> list[JobT]:
        """Take out every job, in no particular order."""
        jobs = [job for line in self._lines.values() for job in line.take(0, len(line))]
        self._forget(jobs)
        return jobs

    def served(self, key: Hashable, jobs: int, seconds: float) -> None:
        """A worker was busy for `seconds` with a batch of `jobs` jobs (at least 1) of `key`."""
        newest = seconds / jobs
        known = self._service_s.get(key, newest)
        self._service_s[key] = known + _NEWEST_WEIGHT * (newest - known)

    def backlog_s(self) -> float:
        """How long the workers will need for all that waits, by their measured speed."""
        work = sum(len(line) * self._estimate_s(key) for key, line in self._lines.items())
        return work / self._workers

    def _estimate_s(self, key: Hashable) -> float:
        if key in self._service_s:
            return self._service_s[key]
        known = self._service_s.values()
        return sum(known) / len(known) if known else _FIRST_GUESS_S

    def _may_go(self, key: Hashable, line: "_Line[JobT]", start: int, now: float) -> bool:
        full = len(line) - start >= self._max_batch
        return full or self._max_wait_s == 0 or now >= self._hold_until(key, line, start)

    def _hold_until(self, key: Hashable, line: "_Line[JobT]", start: int) -> float:
        """Until when a batch that is not full may be held back for others to join it."""
        count = min(len(line) - start, self._max_batch)
        oldest = min(job.arrived_at for job in line.jobs[start:])
        last_chance = line.places[start][0] - count * self._estimate_s(key)
        return min(oldest + self._max_wait_s, last_chance)

    def _forget(self, jobs: Iterable[JobT]) -> None:
        for job in jobs:
            self._waiting -= 1
            places = self._places[job.session]
            del places[job.id]
            if not places:
                del self._places[job.session]
            if job.key in self._lines and not self._lines[job.key]:
                del self._lines[job.key]


_Place = tuple[float, int]
"""Deadline, then sequence number: a total order."""


class _Line(Generic[JobT]):
    """The waiting jobs of one key in order; `jobs[i]` stands at `places[i]`."""

    __slots__ = ("jobs", "places")

    def __init__(self) -> None:
        self.places: list[_Place] = []
        self.jobs: list[JobT] = []

    def __len__(self) -> int:
        return len(self.places)

    def insert(self, place: _Place, job: JobT) -> None:
        at = bisect_left(self.places, place)
        self.places.insert(at, place)
        self.jobs.insert(at, job)

    def take(self, start: int, end: int) -> list[JobT]:
        taken = self.jobs[start:end]
        del self.jobs[start:end], self.places[start:end]
        return taken

    def remove(self, place: _Place) -> JobT:
        at = bisect_left(self.places, place)
        del self.places[at]
        return self.jobs.pop(at)

    def overdue(self, now: float) -> int:
        """How many jobs, all at the front, have no time left."""
        return bisect_right(self.places, now, key=_deadline_of)


def _deadline_of(place: _Place) -> float:
    return place[0]
