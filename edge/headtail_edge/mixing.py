"""Jobs at several cuts of a bundle in one batch: what lies behind the later cut is computed once.

    jobs at L5   segment L5-L6, segment L6-L7   \\
                                                 one tail behind L7 for all of them
    jobs at L7   -                              /

Where the ways of all of them first meet, the batch becomes one. It saves what each run of a tail
costs besides its jobs, and costs one more run for each segment: whether that pays is a matter of
what both were measured to take.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from headtail_edge.costs import Costs

MixedCuts = Literal["auto", "always", "never"]
"""Where batches are mixed: where that is expected to take less time, all over, or nowhere."""

_WORTH: Final = 0.95
"""Of the time that separate batches would take: predictions are no better than that."""

RESERVE: Final = 1.1
"""Nobody is mixed in who makes others late when all takes a tenth longer than expected."""


class Hop(NamedTuple):
    """A segment behind a cut. `key` is what its cost is known by, `until` the key of the jobs at
    the cut where it ends; in 1e9 multiply-adds, `gmacs` of it and `rest_gmacs` of the tail from
    there."""

    key: Hashable
    gmacs: float
    until: Hashable
    rest_gmacs: float


class Group(NamedTuple):
    """So many jobs of one key, each with a tail of `gmacs` that begins with the segments `hops`."""

    key: Hashable
    jobs: int
    gmacs: float
    hops: tuple[Hop, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """A batch of jobs of one or several keys.

    The rest of the tail from `meeting` on is computed for all of them. `costs` are the keys of all
    that is run, the rest's the last; `seconds` it is expected to take, decoding not counted;
    `each_s` a job's part of it, by its key.
    """

    groups: tuple[Group, ...]
    meeting: Hashable
    costs: tuple[Hashable, ...]
    seconds: float
    each_s: dict[Hashable, float]


class Mixer:
    """Decides what is put together. Not thread-safe; never looks at a clock."""

    def __init__(self, *, costs: Costs, max_batch: int, mixed_cuts: MixedCuts) -> None:
        self._costs = costs
        self._max_batch = max_batch
        self._mixed_cuts = mixed_cuts

    def alone(self, group: Group) -> Mix:
        """A batch of one key."""
        seconds = self._batch_s(group)
        return Mix(
            groups=(group,),
            meeting=group.key,
            costs=(group.key,),
            seconds=seconds,
            each_s={group.key: seconds / group.jobs},
        )

    def mix(
        self,
        lead: Group,
        others: Iterable[Group],
        *,
        suits: Callable[[Mix], bool] = lambda mix: True,
    ) -> Mix:
        """The batch of `lead`, with those of `others` for whom there is room, with whom it pays,
        and with whom it `suits`; who comes first in `others` is tried first."""
        best = self.alone(lead)
        if self._mixed_cuts == "never":
            return best
        for group in others:
            if sum(one.jobs for one in best.groups) + group.jobs > self._max_batch:
                continue
            mix = self._together((*best.groups, group))
            if mix is not None and self._pays(mix, best, group) and suits(mix):
                best = mix
        return best

    def saved_s(self, groups: Sequence[Group]) -> dict[Hashable, float]:
        """How much sooner the jobs of each key are done with when those groups wait together."""
        left, saved = list(groups), dict[Hashable, float]()
        while len(left) > 1 and self._mixed_cuts != "never":
            mix = self.mix(left.pop(0), left)
            apart_s = {group.key: self._batch_s(group) for group in mix.groups}
            saves = 1 - mix.seconds / sum(apart_s.values()) if len(apart_s) > 1 else 0.0
            saved |= {key: seconds * saves for key, seconds in apart_s.items()}
            left = [group for group in left if group.key not in apart_s]
        return saved

    def _pays(self, mix: Mix, without: Mix, group: Group) -> bool:
        if self._mixed_cuts == "always":
            return True
        # What was not measured for long is computed apart, and is known again.
        if not all(self._costs.is_current(one.key) for one in mix.groups):
            return False
        # Nor is it known what larger batches save as long as every cut has but small ones.
        if not all(self._costs.is_known(key) for key in mix.costs[:-1]):
            return True
        return mix.seconds < _WORTH * (without.seconds + self._batch_s(group))

    def _batch_s(self, group: Group) -> float:
        return self._costs.batch_s(group.key, group.jobs, gmacs=group.gmacs)

    def _together(self, groups: tuple[Group, ...]) -> Mix | None:
        """None where their ways never meet."""
        ways = [dict(_way(group)) for group in groups]
        meeting = next((key for key in ways[0] if all(key in way for way in ways[1:])), None)
        if meeting is None:
            return None
        passing: dict[Hashable, int] = {}
        shares: dict[Hashable, tuple[Hashable, float]] = {}
        for group in groups:
            for hop in _until(group, meeting):
                passing[hop.key] = passing.get(hop.key, 0) + group.jobs
                shares[hop.key] = (group.key, hop.gmacs / group.gmacs if group.gmacs else 0.0)
        took_s = {
            key: self._costs.segment_s(key, jobs, tail=shares[key][0], share=shares[key][1])
            for key, jobs in passing.items()
        }
        total = sum(group.jobs for group in groups)
        rest_s = self._costs.batch_s(meeting, total, gmacs=ways[0][meeting])
        each_s = {
            group.key: rest_s / total
            + sum(took_s[hop.key] / passing[hop.key] for hop in _until(group, meeting))
            for group in groups
        }
        return Mix(
            groups=groups,
            meeting=meeting,
            costs=(*passing, meeting),
            seconds=sum(took_s.values()) + rest_s,
            each_s=each_s,
        )


def _way(group: Group) -> Iterable[tuple[Hashable, float]]:
    """The cuts that a group's tail passes, with what the tail from there computes."""
    yield group.key, group.gmacs
    for hop in group.hops:
        yield hop.until, hop.rest_gmacs


def _until(group: Group, meeting: Hashable) -> Iterable[Hop]:
    """The segments up to there."""
    at = group.key
    for hop in group.hops:
        if at == meeting:
            return
        yield hop
        at = hop.until
