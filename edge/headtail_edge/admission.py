"""Whether a request would be answered in time: refused early it costs nobody anything.

    waits for   what comes before it, spread over the workers as they become free
    takes       a batch as large as the one it would be in, and decoding its payload

Where that is too late, cheaper ways for the same frame are tried in the same way: another codec at
the same cut that is decoded sooner, then later cuts, from the one that leaves the device least to
compute. The device decides, it alone knows its link and its speed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from headtail_edge.batcher import Batcher
from headtail_edge.costs import Costs
from headtail_edge.job import Job
from headtail_edge.plan import PlanKey, Way
from headtail_fabric.peer.events import Alternative

_TRUSTED_FOR_S: Final = 1.0
"""On an older estimate of what a batch takes nobody is refused: an edge that once seemed too slow
would never find out that it is not."""

_MARGIN: Final = 1.1
"""What is accepted is still in time when all takes a tenth longer than expected."""

_SOONEST_RETRY_S: Final = 0.005
_NOWHERE: Final = Alternative()


class Reason(StrEnum):
    """Why a request is refused for now."""

    RATE = "rate"
    FULL = "full"
    LATE = "late"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Not now. A like request should be in time `retry_after_s` from now; `instead` is how this
    one might be, if anything is known of that."""

    reason: Reason
    retry_after_s: float
    instead: Alternative | None = None


class Admission:
    """Judges jobs against the batcher's queue. Not thread-safe; never looks at a clock."""

    def __init__(self, *, batcher: Batcher[Job], costs: Costs) -> None:
        self._batcher = batcher
        self._costs = costs
        self._like: tuple[PlanKey, str] | None = None
        self._answered_in_s = 0.0
        self._one_more_s = 0.0

    def __repr__(self) -> str:
        return f"<Admission to {self._batcher!r}>"

    def is_surely_in_time(self, job: Job, now: float) -> bool:
        """Whether `job` may wait, by what was found of the last one: most requests are like it and
        come right after it, and each adds to the next one's time no more than a batch of its own.
        """
        if self._like != (job.key, job.codec) or not self._batcher.has_room(job):
            return False
        self._answered_in_s += self._one_more_s
        return self._answered_in_s < (job.deadline_at - now) / _MARGIN

    def look_again(self) -> None:
        """What was found is not so any more: a batch was taken or is done, or work put back."""
        self._like = None

    def judge(self, job: Job, free_in_s: Sequence[float], now: float) -> Refusal | None:
        """None when the job may wait; `free_in_s` is when each worker is done with its batch."""
        self._like = None
        if not self._batcher.has_room(job):
            served_in_s = turn_in_s(free_in_s, self._batcher.work_s())
            return Refusal(reason=Reason.FULL, retry_after_s=_soon(served_in_s))
        if not self._costs.measured:
            return None
        batch = self._batcher.batch_with(job)
        age_s = max(self._costs.age_s(key, now) for key in batch.costs)
        own_s = batch.seconds if age_s <= _TRUSTED_FOR_S else 0.0
        left_s = (job.deadline_at - now) / _MARGIN
        answered_in_s = turn_in_s(free_in_s, self._batcher.work_s()) + own_s
        if answered_in_s < left_s:  # whatever comes before it
            self._like, self._answered_in_s = (job.key, job.codec), answered_in_s
            self._one_more_s = 2 * self._takes_s(job.key, job.codec, 1, job.gmacs)
            return None
        wait_s = turn_in_s(free_in_s, self._batcher.work_before_s(job))
        if wait_s + own_s < left_s:
            return None
        instead = next(
            (
                Alternative(cut=way.key.cut, codec=codec)
                for way, codec in self._cheaper(job)
                if wait_s + self._takes_s(way.key, codec, 1, way.gmacs) < left_s
            ),
            _NOWHERE,
        )
        return Refusal(
            reason=Reason.LATE, retry_after_s=_soon(wait_s + own_s - left_s), instead=instead
        )

    def _takes_s(self, key: PlanKey, codec: str, jobs: int, gmacs: float) -> float:
        decoding_s = self._costs.decode_s(key, codec) * jobs
        return self._costs.batch_s(key, jobs, gmacs=gmacs) + decoding_s

    def _cheaper(self, job: Job) -> Iterator[tuple[Way, str]]:
        """From the nearest to what was asked for; the wanted codec first where a cut has it."""
        own_s = self._costs.decode_s(job.key, job.codec)
        for way in job.plan.ways:
            if way.key == job.key:
                for codec in way.codecs:
                    decoding_s = self._costs.decode_s(job.key, codec)
                    if 0 < decoding_s < own_s:
                        yield way, codec
            elif way.gmacs < job.gmacs:
                yield way, job.codec if job.codec in way.codecs else way.codecs[0]


def turn_in_s(free_in_s: Sequence[float], work_s: float) -> float:
    """When the next job's turn comes: workers that become free at those times share `work_s`
    among them, as finely as may be."""
    free = sorted(free_in_s)
    for busy, until_s in enumerate(free[1:], start=1):
        fits_s = (until_s - free[busy - 1]) * busy
        if work_s <= fits_s:
            return free[busy - 1] + work_s / busy
        work_s -= fits_s
    return free[-1] + work_s / len(free)


def _soon(seconds: float) -> float:
    return max(seconds, _SOONEST_RETRY_S)
