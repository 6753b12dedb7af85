"""The tails that are expected, and what is kept for them.

Some of their kind came lately, so more will. An iteration under way when one comes must end early
enough for it; and the time that they take is not there for texts.
"""

import math
from dataclasses import dataclass, replace
from typing import Final

from headtail_cloud.core.budget import time_budget_s
from headtail_cloud.core.request import Segment
from headtail_cloud.core.resources import Resources
from headtail_cloud.core.work import Work

Chain = tuple[Segment, ...]

_MOST: Final = 0.9
"""Of the engine's time that texts are told to be without."""

_LEAST_KNOWN: Final = 0.1
"""Of the time that is averaged over: what was seen in less says little."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressure:
    """What tails do to texts: they are expected to let no iteration take longer than `longest_s`,
    and take that `share` of the engine's time."""

    longest_s: float = math.inf
    share: float = 0.0


class Protection:
    """Of one engine."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._for_s = resources.options.protected_for_s
        self._seen: dict[Chain, _Seen] = {}
        self._began_at: float | None = None
        self._ran_at = 0.0
        self._share = 0.0

    def saw(self, chain: Chain, deadline_s: float, now: float) -> None:
        """Such a tail came, and was accepted."""
        seen = self._seen.setdefault(chain, _Seen(now))
        if now - seen.since > self._for_s:
            seen.before_s, seen.tightest_s, seen.since = seen.tightest_s, math.inf, now
        seen.tightest_s = min(seen.tightest_s, deadline_s)
        seen.at = now

    def ran(self, work: Work, now: float) -> None:
        """That was an iteration."""
        if not work.items:
            return
        if self._began_at is None:
            self._began_at = self._ran_at = now
        texts_s = self._resources.estimate(replace(work, items={})) if work.tokens else 0.0
        tails_s = self._resources.estimate(work) - texts_s
        self._share = self._faded(now) + tails_s / self._for_s
        self._ran_at = now

    def slack_s(self, now: float) -> float:
        """The shortest time that one of them could wait, as things are; infinite when none is
        expected."""
        for chain, seen in list(self._seen.items()):
            if now - seen.at > self._for_s:
                del self._seen[chain]
        return min(
            (
                self._resources.longest_wait_s(chain, min(seen.before_s, seen.tightest_s))
                for chain, seen in self._seen.items()
            ),
            default=math.inf,
        )

    def pressure(self, now: float) -> Pressure:
        """What they do to texts."""
        slack_s = self.slack_s(now)
        if self._began_at is None or slack_s == math.inf:
            return Pressure()
        options, margin = self._resources.options, self._resources.margin
        known = 1 - math.exp((self._began_at - now) / self._for_s)
        return Pressure(
            longest_s=time_budget_s(slack_s, options, margin=margin),
            share=min(_MOST, self._faded(now) / max(known, _LEAST_KNOWN)),
        )

    def _faded(self, now: float) -> float:
        return self._share * math.exp((self._ran_at - now) / self._for_s)


@dataclass(slots=True)
class _Seen:
    """The tightest deadline `since` then, and in a time as long before that; the last one came
    `at`."""

    since: float
    at: float = 0.0
    tightest_s: float = math.inf
    before_s: float = math.inf
