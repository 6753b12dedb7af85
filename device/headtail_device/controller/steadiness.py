"""When to leave what works: hysteresis over the options' costs."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from headtail_device.controller.goal import Cost

_QUIET: Final = 4
"""After so many dwells without a return, the next dwell is half as long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadinessSettings:
    """An option is left for one that costs `margin` less, `patience` decisions in a row, or at
    once if it costs `plunge` less. After that nothing more is changed for a dwell: `dwell_s`,
    twice as long each time it goes back to where it came from, up to `longest_s`."""

    margin: float = 0.04
    plunge: float = 0.3
    patience: int = 3
    dwell_s: float = 1.0
    longest_s: float = 30.0


class Steadiness:
    """Two changes of its own will are at least `dwell_s` apart, however the costs jump.

    Only what can't be had or would be late is left sooner, and during a dwell only for a refuge:
    one of the options that need no network. Whoever fled stays until the dwell is over.
    """

    def __init__(self, settings: SteadinessSettings | None = None) -> None:
        self._settings = settings or SteadinessSettings()
        self._current: str | None = None
        self._previous: str | None = None
        self._challenged = 0
        self._dwell_s = self._settings.dwell_s
        self._held_until = float("-inf")
        self.changes = 0

    def __repr__(self) -> str:
        return f"Steadiness({self._current!r}, changes={self.changes}, dwell={self._dwell_s:g}s)"

    @property
    def current(self) -> str | None:
        """What is held to."""
        return self._current

    def choose(self, costs: Mapping[str, Cost], refuges: Collection[str], now: float) -> str:
        """One of `costs`, which must not be empty."""
        best = min(costs, key=lambda name: (costs[name], name))
        held = costs.get(self._current) if self._current is not None else None
        if self._current is None:
            self._current = best
            return best
        if held is None or (held.late and not costs[best].late):
            return self._flee(costs, refuges, best, now)
        if best == self._current or not self._is_worth_it(costs[best], held):
            self._challenged = 0
            return self._current
        self._challenged += 1
        patient = self._challenged < self._settings.patience
        plunge = costs[best].amount < (1 - self._settings.plunge) * held.amount
        if now < self._held_until or (patient and not plunge):
            return self._current
        self._change(best, now)
        return best

    def _is_worth_it(self, best: Cost, held: Cost) -> bool:
        return best.amount < (1 - self._settings.margin) * held.amount

    def _flee(
        self, costs: Mapping[str, Cost], refuges: Collection[str], best: str, now: float
    ) -> str:
        assert self._current is not None
        if now < self._held_until:
            safe = [name for name in costs if name in refuges]
            if not safe:
                safe = list(costs)
            best = min(safe, key=lambda name: (costs[name], name))
            if best == self._current or (
                self._current in costs and costs[best].late >= costs[self._current].late
            ):
                return self._current
        self._change(best, now)
        return best

    def _change(self, to: str, now: float) -> None:
        settings = self._settings
        if to == self._previous:
            self._dwell_s = min(self._dwell_s * 2, settings.longest_s)
        while now > self._held_until + _QUIET * self._dwell_s and self._dwell_s > settings.dwell_s:
            self._dwell_s = max(self._dwell_s / 2, settings.dwell_s)
        self._previous, self._current = self._current, to
        self._held_until = now + self._dwell_s
        self._challenged = 0
        self.changes += 1
