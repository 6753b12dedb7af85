"""Who shares the workers with whom: tenants, as the operator names them."""

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated

import msgspec
from msgspec import Meta

from headtail_edge.rate_limit import Rate
from headtail_fabric.errors import ConfigError

Weight = Annotated[
    float, Meta(gt=0, le=1000, description="Share of the workers against other flows of weight 1.")
]


class TenantConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Devices that have one share of the workers together: `[tenants.NAME]`."""

    members: Annotated[
        tuple[str, ...],
        Meta(description="Names of the allow-list; * stands for anything, as in `cam-*`."),
    ]
    weight: Weight = 1.0
    max_waiting: Annotated[
        Annotated[int, Meta(ge=1, le=65_536)] | None,
        Meta(description="Requests that may wait; limits.max_waiting when not set."),
    ] = None
    rate_per_s: Annotated[
        Annotated[float, Meta(gt=0, le=1e6)] | None,
        Meta(description="Requests a second of each member; limits.rate_per_s when not set."),
    ] = None


class LimitsConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What one device may take of this edge, where no tenant's table says otherwise."""

    rate_per_s: Annotated[
        Annotated[float, Meta(gt=0, le=1e6)] | None,
        Meta(description="Requests a second of one device; no limit when not set."),
    ] = None
    burst_s: Annotated[
        float,
        Meta(gt=0, le=3600, description="For how long a limit may be saved up and used at once."),
    ] = 1.0
    max_waiting: Annotated[
        Annotated[int, Meta(ge=1, le=65_536)] | None,
        Meta(
            description="Requests of one device or tenant that may wait; half of queue_limit when "
            "not set."
        ),
    ] = None
    patience_ms: Annotated[
        float,
        Meta(
            ge=0,
            le=600_000,
            description="A request that has waited for that long is not overtaken by later ones, "
            "however early their deadlines.",
        ),
    ] = 2000.0
    slack_ms: Annotated[
        float,
        Meta(
            ge=0,
            le=600_000,
            description="By how much computing time one may be ahead of the others before it must "
            "wait for them; within that, deadlines decide.",
        ),
    ] = 100.0


class TenantsError(ConfigError):
    """The table of tenants can't be used: a device may belong to one tenant only, and without an
    allow-list no device has a name. Correct the members that the message names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """Whose requests are computed from one share. `quota` of them may wait; `rate` is each
    device's limit, if any."""

    name: str
    weight: float
    quota: int
    rate: Rate | None


class Tenants:
    """Finds the flow of a device. Members of no tenant are a flow each."""

    def __init__(
        self, tenants: Mapping[str, TenantConfig], limits: LimitsConfig, *, queue_limit: int
    ) -> None:
        """Raises TenantsError when a pattern belongs to two tenants."""
        self._limits = limits
        self._quota = limits.max_waiting or max(1, queue_limit // 2)
        self._patterns: list[tuple[str, Flow]] = []
        for name, tenant in tenants.items():
            flow = self._flow(f"tenant {name}", tenant)
            for pattern in tenant.members:
                if any(pattern == other for other, _ in self._patterns):
                    raise TenantsError(f"{pattern!r} is a member of two tenants")
                self._patterns.append((pattern, flow))

    def __repr__(self) -> str:
        return f"<Tenants {', '.join(pattern for pattern, _ in self._patterns) or 'none'}>"

    def flow(self, user: str, session: bytes) -> Flow:
        """Of a device by its enrolled name; one without a name (no allow-list) is known by its
        session. The first pattern that fits counts, whole names before others."""
        fitting = [flow for pattern, flow in self._patterns if pattern == user] or [
            flow for pattern, flow in self._patterns if user and fnmatchcase(user, pattern)
        ]
        if fitting:
            return fitting[0]
        return Flow(
            name=f"device {user or session.hex()}",
            weight=1.0,
            quota=self._quota,
            rate=self._rate(self._limits.rate_per_s),
        )

    def _flow(self, name: str, tenant: TenantConfig) -> Flow:
        return Flow(
            name=name,
            weight=tenant.weight,
            quota=tenant.max_waiting or self._quota,
            rate=self._rate(tenant.rate_per_s or self._limits.rate_per_s),
        )

    def _rate(self, per_s: float | None) -> Rate | None:
        if per_s is None:
            return None
        return Rate(per_s=per_s, burst=max(1, round(per_s * self._limits.burst_s)))
