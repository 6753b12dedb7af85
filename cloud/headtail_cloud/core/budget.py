"""How long the next iteration may take.

An iteration is not interrupted, so whatever comes while it runs waits for its end. The budget is
the tightest of:

    decodes     the time until the next token of a running text is due
    tails       the time until a waiting tail must be done, less the segments it still has after
                this iteration
    protection  how long tails may wait that may come at any moment, and still be accepted

What is late already does not count: it would make all the others late, too.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from headtail_cloud.core.options import SchedulerOptions
from headtail_cloud.core.request import Segment


class Protection:
    """The tails that are expected, since some of their kind came lately."""

    def __init__(self, options: SchedulerOptions) -> None:
        self._for_s = options.protected_for_s
        self._seen: dict[tuple[Segment, ...], _Seen] = {}

    def saw(self, chain: tuple[Segment, ...], slack_s: float, now: float) -> None:
        """Such a tail came, and would have been accepted with that long to wait."""
        seen = self._seen.get(chain)
        if seen is None or now - seen.at > self._for_s or slack_s < seen.slack_s:
            self._seen[chain] = _Seen(slack_s, now)
        else:
            seen.at = now

    def slack_s(self, now: float) -> float:
        """The shortest time that one of them could wait; infinite when none is expected."""
        for chain, seen in list(self._seen.items()):
            if now - seen.at > self._for_s:
                del self._seen[chain]
        return min((seen.slack_s for seen in self._seen.values()), default=float("inf"))


@dataclass(slots=True)
class _Seen:
    slack_s: float
    at: float


def time_budget_s(slacks: Iterable[float], options: SchedulerOptions) -> float:
    """The smallest slack, between the options' shortest and longest."""
    return max(min([options.longest_step_s, *slacks]), options.shortest_budget_s)
