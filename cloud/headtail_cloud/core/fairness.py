"""Whose turn it is: the virtual counter of each tenant.

A tenant's counter grows by what was done for it; whoever waits with the smallest is next. One that
comes back after it had nothing waiting is lifted to the smallest counter of those that wait, so
that idling saves nothing up (Sheng et al., "Fairness in Serving Large Language Models", OSDI 2024,
the Virtual Token Counter; counted here in seconds of the engine, so that tails and tokens add up).

While two tenants both wait, what was done for them differs by no more than twice the largest
charge.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Protocol, TypeVar

_REMEMBERED: Final = 4096
"""Tenants with nothing waiting whose debts are remembered."""


class Owned(Protocol):
    @property
    def tenant(self) -> str: ...


_JobT = TypeVar("_JobT", bound=Owned)


class FairShare:
    """Counters of tenants. `weights`: a tenant's share against one that has 1, the default."""

    def __init__(self, weights: Mapping[str, float] | None = None) -> None:
        self._weights = dict(weights or {})
        if any(weight <= 0 for weight in self._weights.values()):
            raise ValueError("a share must be positive")
        self._counters: dict[str, float] = {}
        self._waiting: dict[str, int] = {}

    def __repr__(self) -> str:
        shown = ", ".join(f"{t}: {self._counters[t]:.3f}" for t in sorted(self._waiting))
        return f"<FairShare {shown or 'idle'}>"

    def enter(self, tenant: str) -> None:
        """One more request of that tenant is here."""
        if tenant not in self._waiting:
            floor = self._floor()
            self._counters[tenant] = max(self._counters.get(tenant, floor), floor)
            self._waiting[tenant] = 0
        self._waiting[tenant] += 1

    def leave(self, tenant: str) -> None:
        """One of them has ended."""
        self._waiting[tenant] -= 1
        if not self._waiting[tenant]:
            del self._waiting[tenant]
            self._trim()

    def count(self, tenant: str) -> int:
        """How many of its requests are here."""
        return self._waiting.get(tenant, 0)

    def counter(self, tenant: str) -> float:
        """Where a tenant stands, or would stand if it came now."""
        if tenant in self._waiting:
            return self._counters[tenant]
        floor = self._floor()
        return max(self._counters.get(tenant, floor), floor)

    def charge(self, tenant: str, cost_s: float) -> None:
        """That much was done for a tenant that is here."""
        self._counters[tenant] += cost_s / self._weights.get(tenant, 1.0)

    def turns(self, lines: Mapping[str, Sequence[_JobT]]) -> Iterator[_JobT]:
        """The jobs of `lines`, by tenant, each time the next one of the tenant with the smallest
        counter; what is charged between two turns counts."""
        rest = {tenant: iter(line) for tenant, line in lines.items()}
        while rest:
            tenant = min(rest, key=self._owed)
            job = next(rest[tenant], None)
            if job is None:
                del rest[tenant]
            else:
                yield job

    def _floor(self) -> float:
        """The smallest counter of those that are here; with nobody here, all debts are settled."""
        if self._waiting:
            return min(self._counters[tenant] for tenant in self._waiting)
        return max(self._counters.values(), default=0.0)

    def _trim(self) -> None:
        """Beyond the limit, forget the idle tenants that owe least: most often the floor would
        lift them anyway."""
        if len(self._counters) - len(self._waiting) > 2 * _REMEMBERED:
            idle = sorted(self._counters.keys() - self._waiting.keys(), key=self._owed)
            for tenant in idle[:-_REMEMBERED]:
                del self._counters[tenant]

    def _owed(self, tenant: str) -> tuple[float, str]:
        return self._counters[tenant], tenant
