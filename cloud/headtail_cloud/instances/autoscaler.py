"""How many instances a group should have, from the requests in progress.

The rule of Knative's pod autoscaler: the average over a long, stable window, and one over a short
window that takes over in a panic, when it wants twice of what there is; in a panic nothing is taken
away. Demand is counted for each segment of the group, whatever part of a network that is: head and
tail of one network go to zero together, or not at all, since one without the other is of no use.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headtail_cloud.core.request import Segment
from headtail_cloud.instances.demand import Demand

_PANIC_WINDOW_SHARE: Final = 0.1
_PANIC_FROM: Final = 2.0
_FASTEST_DOWN: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingOptions:
    """Limits and times of one group. `target`: requests in progress that one instance is for."""

    least: int = 0
    most: int = 1
    target: float = 4.0
    stable_s: float = 60.0
    """The longer window: nothing goes to zero that was asked for within it."""

    def __post_init__(self) -> None:
        if not 0 <= self.least <= self.most or self.most < 1:
            raise ValueError("a group has 0 to `most` instances, and at least `least`")
        if min(self.target, self.stable_s) <= 0:
            raise ValueError("targets and times must be positive")


class Autoscaler:
    """Of one group; never looks at a clock."""

    def __init__(self, options: ScalingOptions) -> None:
        self._options = options
        self._demands: dict[Segment | str, Demand] = {}
        self._panic_until = -math.inf
        self._panic_peak = 0

    def __repr__(self) -> str:
        demands = ", ".join(f"{key}: {demand.current}" for key, demand in self._demands.items())
        return f"<Autoscaler {demands or 'idle'}>"

    @property
    def idle(self) -> bool:
        """Whether nothing of the group is in progress."""
        return not any(demand.current for demand in self._demands.values())

    def observe(self, in_progress: Mapping[Segment | str, int], now: float) -> None:
        """How many requests of each segment (or text model) there are now."""
        for key in self._demands.keys() | in_progress.keys():
            known = self._demands.get(key)
            if known is None:
                known = Demand(window_s=self._options.stable_s, now=now)
                self._demands[key] = known
            known.changed(in_progress.get(key, 0), now)

    def desired(self, running: int, now: float) -> int:
        """How many instances there should be, of which `running` are there or being started."""
        stable = self._wanted(self._options.stable_s, now)
        panic = self._wanted(self._options.stable_s * _PANIC_WINDOW_SHARE, now)
        if panic >= _PANIC_FROM * max(running, 1):
            self._panic_until = now + self._options.stable_s
        if now < self._panic_until:
            self._panic_peak = max(self._panic_peak, panic, running)
            wanted = self._panic_peak
        else:
            self._panic_peak = 0
            wanted = max(stable, math.floor(running / _FASTEST_DOWN))
        return min(max(wanted, self._options.least), self._options.most)

    def _wanted(self, window_s: float, now: float) -> int:
        averages = (demand.average(window_s, now) for demand in self._demands.values())
        return math.ceil(sum(averages) / self._options.target - 1e-9)
