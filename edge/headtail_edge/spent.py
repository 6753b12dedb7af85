"""What a batch took, for what is to be expected of the next."""

from dataclasses import dataclass, field

import msgspec

from headtail_edge.plan import PlanKey, SegmentKey


class Took(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a stage for so many jobs: the tail of `plan`, or its segment `until` another cut.

    `gmacs` is what it computes for one job, 1e9 multiply-adds.
    """

    plan: PlanKey
    until: str | None = None
    jobs: int
    gmacs: float
    seconds: float

    @property
    def key(self) -> PlanKey | SegmentKey:
        """What its cost is known by."""
        return self.plan if self.until is None else SegmentKey(self.plan, self.until)


@dataclass(slots=True, kw_only=True)
class Spent:
    """`decoding` is cut, codec and time (s) of payloads, each alone or of some on average; `runs`
    are those for whole groups of jobs, in their order, not for one that was tried again."""

    decoding: list[tuple[PlanKey, str, float]] = field(default_factory=list)
    runs: list[Took] = field(default_factory=list)

    @property
    def mixed(self) -> int:
        """How many jobs had the rest of their tail computed together with jobs of another cut."""
        is_mixed = any(took.until is not None for took in self.runs)
        return self.runs[-1].jobs if is_mixed else 0

    def decoding_each_s(self) -> dict[tuple[PlanKey, str], float]:
        """What a payload of each cut and codec took on average."""
        taken: dict[tuple[PlanKey, str], list[float]] = {}
        for key, codec, seconds in self.decoding:
            taken.setdefault((key, codec), []).append(seconds)
        return {way: sum(times) / len(times) for way, times in taken.items()}
