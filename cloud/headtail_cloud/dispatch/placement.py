"""Where a request is done soonest: one formula over everything that could take it.

    T = T_start + T_transfer + T_queue + T_run

`start` is what loading still takes, from the tier where an instance stands; `transfer` the way of
the input to it; `queue` what is before it; `run` its own work, less the beginning of a prompt that
is in the cache there already. So the prefix-aware choice of Mooncake (FAST 2025, algorithm 1) and
the choice by loading time of ServerlessLLM (OSDI 2024) are one comparison, and so is that between
waiting in a queue and starting another instance.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """Seconds until an instance that stands somewhere would have done a request, by parts."""

    instance: str
    start_s: float = 0.0
    transfer_s: float = 0.0
    queue_s: float = 0.0
    run_s: float = 0.0

    @property
    def total_s(self) -> float:
        return self.start_s + self.transfer_s + self.queue_s + self.run_s


def by_total(candidates: Iterable[Candidate]) -> list[Candidate]:
    """The soonest first; of equals the one that was named first."""
    return sorted(candidates, key=lambda candidate: candidate.total_s)
