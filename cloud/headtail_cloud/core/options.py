"""What an operator can set of a scheduler."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerOptions:
    """Limits and times of one engine's scheduler."""

    max_waiting: int = 512
    """Requests here at a time."""
    max_waiting_per_tenant: int = 128
    longest_step_s: float = 1.0
    """Of an iteration, when nothing is due earlier."""
    shortest_budget_s: float = 0.005
    """When something is due at once: one job must not stop all prefills."""
    protected_for_s: float = 10.0
    """How long after a tail came others of its segment are expected, and time is kept for them."""
    token_budget: int | None = None
    """Prefill and decode tokens of an iteration at most; Sarathi's rule where no time is due."""
    smallest_chunk: int = 16
    """Prefill tokens below which a chunk is not worth an iteration's place, unless it ends the
    prompt or there is nothing else to do."""
    spare_blocks: float = 0.01
    """Share of the cache that new sequences leave free for those that grow."""
    aging_s: float = 5.0
    """A request's priority rises by one each time it has waited that long."""
    headroom: float = 0.9
    """Share of its deadline that a request's predicted time may take to be accepted."""
    least_retry_s: float = 0.05
    probe_every_s: float = 1.0
    """How often one is taken of a kind that would be too late even by itself: an estimate that is
    too high would never be found out if nothing were measured."""
    shares: Mapping[str, float] = field(default_factory=dict)
    """Tenants' shares, where not 1."""

    def __post_init__(self) -> None:
        positive = (
            self.max_waiting,
            self.max_waiting_per_tenant,
            self.longest_step_s,
            self.shortest_budget_s,
            self.smallest_chunk,
            self.aging_s,
            self.headroom,
            self.least_retry_s,
            self.probe_every_s,
        )
        if min(positive) <= 0 or (self.token_budget is not None and self.token_budget < 1):
            raise ValueError("limits and times must be positive")
        if not 0 <= self.spare_blocks < 1:
            raise ValueError("spare blocks are a share of the cache")
