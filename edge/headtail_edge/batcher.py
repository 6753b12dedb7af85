"""Which waiting requests are computed next, and together: the core, without threads or tensors.

Jobs wait in one line a key (a bundle and a cut: what one run of a stage can take together).

    order       who has had more than its share of the workers (`shares`) comes after all others;
                then the earliest deadline first, where nobody's patience counts for longer than
                `patience_s`, so that no later job overtakes one that has waited for that long;
                at equal deadlines, in order of arrival
    which line  the one whose first job comes first in that same order, so no line starves
    how many    up to `max_batch`; when several workers are idle the line is shared among them
    with whom   when one worker is idle, with the last, incomplete batches of other lines whose
                tails meet this one's (`mixing`), where that pays and makes nobody late who comes
                before them
    when        at once (greedy), or with `max_wait_s` when the batch is full or its oldest job
                has waited that long, but never so long that its first deadline is missed

Every accepted job leaves exactly once: batched, expired, cancelled or dropped.
"""

import heapq
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic

from headtail_edge.costs import Costs
from headtail_edge.mixing import RESERVE, Group, Mix, MixedCuts, Mixer
from headtail_edge.shares import Shares
from headtail_edge.waiting import JobT, Line, Place


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Batch(Generic[JobT]):
    """Jobs to compute together, in the order they were chosen; never empty.

    `key` is where the rest is computed for all of them: with jobs of one key, that key.
    `expected_s` is what it should take, decoding included.
    """

    key: Hashable
    jobs: tuple[JobT, ...]
    expected_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The batch that a job would be in: the keys of what would be run, and how long all of it
    would take."""

    costs: tuple[Hashable, ...]
    seconds: float


class Batcher(Generic[JobT]):
    """The lines of waiting jobs. Not thread-safe; never looks at a clock.

    Before `next_batch` call `expire`, with the same time.
    """

    def __init__(
        self,
        *,
        max_batch: int,
        queue_limit: int,
        costs: Costs,
        max_wait_s: float = 0.0,
        patience_s: float = 2.0,
        slack_s: float = 0.1,
        mixed_cuts: MixedCuts = "auto",
    ) -> None:
        if min(max_batch, queue_limit) < 1 or max_wait_s < 0:
            raise ValueError("a batcher needs room for one job")
        self.max_batch = max_batch
        self._queue_limit = queue_limit
        self._costs = costs
        self._max_wait_s = max_wait_s
        self._patience_s = patience_s
        self._shares = Shares(slack_s=slack_s)
        self._mixer = Mixer(costs=costs, max_batch=max_batch, mixed_cuts=mixed_cuts)
        self._lines: dict[Hashable, Line[JobT]] = {}
        self._places: dict[tuple[bytes, int], tuple[JobT, Place]] = {}
        """By session and id."""
        self._by_flow: dict[str, int] = {}
        self._deadlines: list[tuple[float, int, JobT]] = []
        self._waiting = 0
        self._sequence = 0

    def __len__(self) -> int:
        return self._waiting

    def __repr__(self) -> str:
        lines = ", ".join(f"{key!r}: {len(line)}" for key, line in self._lines.items())
        return f"<Batcher {self._waiting}/{self._queue_limit} waiting {{{lines}}}>"

    def has_room(self, job: JobT) -> bool:
        """Whether the queue, and the job's flow in it, may take one more."""
        return self._waiting < self._queue_limit and self._by_flow.get(job.flow, 0) < job.quota

    def add(self, job: JobT) -> None:
        """Put `job` in its line, room or not.

        Raises ValueError when the same request of the same session waits already.
        """
        who, flow, key = (job.session, job.id), job.flow, job.key
        if who in self._places:
            raise ValueError(f"request {job.id} waits already")
        place = self._place(job)
        self._places[who] = (job, place)
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = Line(job.gmacs, job.hops)
        line.insert(place, job)
        of_flow = self._by_flow.get(flow, 0)
        if not of_flow:
            self._shares.enter(flow, job.weight)
        self._by_flow[flow] = of_flow + 1
        heapq.heappush(self._deadlines, (job.deadline_at, self._sequence, job))
        self._sequence += 1
        self._waiting += 1

    def next_batch(self, now: float, idle_workers: int) -> Batch[JobT] | None:
        """What one of `idle_workers` workers (at least 1) should compute now, if anything."""
        ready = [key for key, line in self._lines.items() if self._may_go(key, line, now)]
        if not ready:
            return None
        ahead = self._shares.ahead()
        key = ready[0]
        if len(ready) > 1:
            key = min(ready, key=lambda one: self._lines[one].first(ahead))
        line = self._lines[key]
        lead = line.group(key, min(-(-len(line) // idle_workers), self.max_batch))
        if idle_workers > 1 or line.alone:
            mix = self._mixer.alone(lead)
        else:
            mix = self._mixer.mix(
                lead,
                self._incomplete(key, ahead),
                suits=lambda mix: self._suits(mix, ahead, now),
            )
        expected_s = mix.seconds + sum(self._decoding_s(group) for group in mix.groups)
        jobs = [job for group in mix.groups for job in self._take(group, mix.each_s[group.key])]
        return Batch(key=mix.meeting, jobs=tuple(jobs), expected_s=expected_s)

    def next_timer(self) -> float | None:
        """When `expire` or `next_batch` may have something new to say though nothing happens."""
        self._drop_stale_deadlines()
        times = [self._deadlines[0][0]] if self._deadlines else []
        if self._max_wait_s > 0:
            times += [self._hold_until(key, line) for key, line in self._lines.items()]
        return min(times, default=None)

    def expire(self, now: float) -> list[JobT]:
        """Take out the jobs whose deadline is over (at `deadline_at` exactly it is)."""
        expired: list[JobT] = []
        while self._deadlines and self._deadlines[0][0] <= now:
            job = heapq.heappop(self._deadlines)[2]
            if self._waits(job):
                expired.append(self._take_out(job))
        return expired

    def waits(self, session: bytes, job_id: int) -> bool:
        """Whether a job of that session and id waits."""
        return (session, job_id) in self._places

    def cancel(self, session: bytes, job_id: int) -> JobT | None:
        """Take out one job, if it still waits."""
        found = self._places.get((session, job_id))
        return None if found is None else self._take_out(found[0])

    def drop_session(self, session: bytes) -> list[JobT]:
        """Take out all jobs of a session."""
        waiting = [job for job, _ in self._places.values() if job.session == session]
        return [self._take_out(job) for job in waiting]

    def drop_all(self) -> list[JobT]:
        """Take out every job, in no particular order."""
        waiting = [job for line in self._lines.values() for job in line]
        return [self._take_out(job) for job in waiting]

    def work_s(self) -> float:
        """How long one worker would need for all that waits."""
        saved_s = self._saved_s()
        return sum(self._line_s(key, line, saved_s) for key, line in self._lines.items())

    def work_before_next_s(self) -> float:
        """How long one worker would need before the next job that comes, if it is like most of
        those that wait and due after all of them: it would join the last batch of its line."""
        if not self._lines:
            return 0.0
        key, line = max(self._lines.items(), key=lambda item: len(item[1]))
        joined = len(line) % self.max_batch
        return self.work_s() - self._line_s(key, line, self._saved_s()) * joined / len(line)

    def work_before_s(self, job: JobT) -> float:
        """How long one worker would need for what comes before a job that is not added yet.

        Within the job's own flow that is what stands before its place. Of another flow it is what
        is due before it, but no more than that flow may have before it has had its share, and no
        less than it is owed by then. Jobs that would be in the same batch don't count.
        """
        place = self._place(job)
        together = {group.key for group in self._mix_with(job).groups}
        saved_s = self._saved_s(without=together)
        before_s: dict[str, float] = {}
        all_s: dict[str, float] = {}
        for key, line in self._lines.items():
            each_s = self._line_s(key, line, saved_s) / len(line)
            before = {flow: row.before(place) for flow, row in line.rows.items()}
            count = sum(before.values())
            joined = count % self.max_batch if key in together else 0
            for flow, row in line.rows.items():
                waits = before[flow] * (1 - joined / count) if count else 0.0
                before_s[flow] = before_s.get(flow, 0.0) + each_s * waits
                all_s[flow] = all_s.get(flow, 0.0) + each_s * len(row)
        own_s = before_s.pop(job.flow, 0.0)
        bounds = self._shares.before_s(job.flow, own_s)
        total_s = own_s
        for flow, seconds in before_s.items():
            least_s, most_s = bounds[flow]
            total_s += min(all_s[flow], max(least_s, min(seconds, most_s)))
        return total_s

    def batch_with(self, job: JobT) -> Forecast:
        """The batch that this one would be in, if it comes to wait."""
        mix = self._mix_with(job)
        own, *others = mix.groups
        decoding_s = self._costs.decode_s(job.key, job.codec) * own.jobs
        return Forecast(
            costs=mix.costs,
            seconds=mix.seconds + decoding_s + sum(map(self._decoding_s, others)),
        )

    def _mix_with(self, job: JobT) -> Mix:
        line = self._lines.get(job.key)
        waiting = len(line) if line is not None else 0
        own = Group(job.key, min(self.max_batch, 1 + waiting), job.gmacs, job.hops)
        if job.alone or (line is not None and line.alone):
            return self._mixer.alone(own)
        left_s = job.deadline_at - job.arrived_at
        return self._mixer.mix(
            own,
            self._incomplete(job.key),
            suits=lambda mix: RESERVE * mix.seconds < left_s,
        )

    def _saved_s(self, *, without: Collection[Hashable] = ()) -> dict[Hashable, float]:
        """How much sooner lines are done with because they will share batches."""
        if len(self._lines) < 2:
            return {}
        return self._mixer.saved_s(
            [group for group in self._incomplete() if group.key not in without]
        )

    def _incomplete(self, key: Hashable = None, ahead: frozenset[str] | None = None) -> list[Group]:
        """The last, incomplete batch of each line but that of `key`, in the order of turns where
        it is told who is `ahead`."""
        found = [
            line.group(other, count)
            for other, line in self._lines.items()
            if other != key and not line.alone and (count := len(line) % self.max_batch)
        ]
        if ahead is not None and len(found) > 1:
            found.sort(key=lambda group: self._lines[group.key].first(ahead))
        return found

    def _suits(self, mix: Mix, ahead: frozenset[str], now: float) -> bool:
        """Whether nobody is late only because of those who join, of the first line's jobs and of
        those in other lines whose turn comes before that of the last to join."""
        lead, joined = mix.groups[0], {group.key for group in mix.groups}
        done_at = now + self._mixer.alone(lead).seconds + self._decoding_s(lead)
        mixed_at = now + RESERVE * (mix.seconds + sum(map(self._decoding_s, mix.groups)))
        if any(done_at < job.deadline_at <= mixed_at for job in self._lines[lead.key]):
            return False
        last = self._lines[mix.groups[-1].key].first(ahead)
        for key, line in self._lines.items():
            if key in joined or (turn := line.first(ahead)) >= last:
                continue
            one_s = self._costs.batch_s(key, 1, gmacs=line.gmacs)
            deadline_at = line.rows[turn[2]].jobs[0].deadline_at
            if done_at + one_s < deadline_at <= mixed_at + one_s:
                return False
        return True

    def _take(self, group: Group, each_s: float) -> list[JobT]:
        """The jobs of a group out of its line, charged to their flows: `each_s` and decoding."""
        line, jobs = self._lines[group.key], list[JobT]()
        job_s = {
            codec: each_s + self._costs.decode_s(group.key, codec)
            for codec, count in line.codecs.items()
            if count
        }
        turns = line.turns(self._shares.ahead())
        while turns and len(jobs) < group.jobs:
            _, place, flow = heapq.heappop(turns)
            row = line.rows[flow]
            if jobs and (row.jobs[0].alone or jobs[0].alone):
                break
            job = line.remove(place, flow)
            jobs.append(job)
            self._shares.charge(flow, job_s[job.codec])
            if row.places:
                heapq.heappush(turns, (self._shares.is_ahead(flow), row.places[0], flow))
        self._forget(group.key, jobs)
        return jobs

    def _decoding_s(self, group: Group) -> float:
        """Of the group's jobs, whose codecs are those of its line on average."""
        line = self._lines[group.key]
        return self._line_decoding_s(group.key, line) * group.jobs / len(line)

    def _line_decoding_s(self, key: Hashable, line: Line[JobT]) -> float:
        return sum(count * self._costs.decode_s(key, codec) for codec, count in line.codecs.items())

    def _line_s(self, key: Hashable, line: Line[JobT], saved_s: Mapping[Hashable, float]) -> float:
        full, rest = divmod(len(line), self.max_batch)
        seconds = full * self._costs.batch_s(key, self.max_batch, gmacs=line.gmacs)
        if rest:
            seconds += self._costs.batch_s(key, rest, gmacs=line.gmacs)
        return seconds + self._line_decoding_s(key, line) - saved_s.get(key, 0.0)

    def _may_go(self, key: Hashable, line: Line[JobT], now: float) -> bool:
        if self._max_wait_s == 0 or len(line) >= self.max_batch:
            return True
        return now >= self._hold_until(key, line)

    def _hold_until(self, key: Hashable, line: Line[JobT]) -> float:
        """Until when a batch that is not full may be held back for others to join it."""
        oldest = min(job.arrived_at for job in line)
        first = min(job.deadline_at for job in line)
        count = min(len(line), self.max_batch)
        return min(
            oldest + self._max_wait_s,
            first - self._costs.batch_s(key, count, gmacs=line.gmacs),
        )

    def _place(self, job: JobT) -> Place:
        return (min(job.deadline_at, job.arrived_at + self._patience_s), self._sequence)

    def _waits(self, job: JobT) -> bool:
        found = self._places.get((job.session, job.id))
        return found is not None and found[0] is job

    def _drop_stale_deadlines(self) -> None:
        while self._deadlines and not self._waits(self._deadlines[0][2]):
            heapq.heappop(self._deadlines)

    def _take_out(self, job: JobT) -> JobT:
        _, place = self._places[job.session, job.id]
        self._lines[job.key].remove(place, job.flow)
        self._forget(job.key, [job])
        return job

    def _forget(self, key: Hashable, jobs: Iterable[JobT]) -> None:
        """Jobs that were taken out of the line of `key`."""
        if not self._lines[key]:
            del self._lines[key]
        for job in jobs:
            flow = job.flow
            self._waiting -= 1
            del self._places[job.session, job.id]
            of_flow = self._by_flow.pop(flow) - 1
            if of_flow:
                self._by_flow[flow] = of_flow
            else:
                self._shares.leave(flow)
        if len(self._deadlines) > 2 * self._waiting + 64:
            self._deadlines = [entry for entry in self._deadlines if self._waits(entry[2])]
            heapq.heapify(self._deadlines)
