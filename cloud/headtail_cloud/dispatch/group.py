"""The instances of one engine: how many there should be, and what starting one takes."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from headtail_cloud.core.cost_model import CostModel
from headtail_cloud.core.engine import Capacity
from headtail_cloud.core.options import SchedulerOptions
from headtail_cloud.core.request import Request, Segment, TailRequest
from headtail_cloud.core.scheduler import Scheduler
from headtail_cloud.core.work import Work
from headtail_cloud.dispatch.member import Member, Standing
from headtail_cloud.instances.autoscaler import Autoscaler, ScalingOptions
from headtail_cloud.instances.ladder import Ladder, Tier
from headtail_cloud.instances.prewarm import Prewarm
from headtail_cloud.migration.policy import Role

Key = Segment | str
"""What demand is counted by: a segment, or a model of texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """What an operator wants of one engine's instances.

    `serves`: its segments, and its models of texts. `estimate` and `capacity`: the engine's own.
    `tier`: where instances start from. `prefills`: of the instances, how many only prefill texts.
    `transfer_s`: for a request's input to get there.
    """

    name: str
    serves: frozenset[Key]
    capacity: Capacity
    estimate: Callable[[Work], float]
    scaling: ScalingOptions = field(default_factory=ScalingOptions)
    keep_alive_s: float = 300.0
    tier: Tier = Tier.RESIDENT
    prefills: int = 0
    transfer_s: float = 0.0


class Group:
    """Members by name, and how many of them there should be."""

    def __init__(self, plan: GroupPlan, options: SchedulerOptions) -> None:
        self.plan = plan
        self.ladder = Ladder(plan.tier)
        self.members: dict[str, Member] = {}
        self.prewarm = Prewarm(keep_alive_s=plan.keep_alive_s)
        self._autoscaler = Autoscaler(plan.scaling)
        self._options = options
        self._here: Counter[Key] = Counter()
        self._numbers = 0
        self.rests_until = -math.inf
        """Before that nothing is started that nobody asks for: starts have failed."""

    def __repr__(self) -> str:
        return f"<Group {self.plan.name}: {list(self.members.values())!r}>"

    @property
    def idle(self) -> bool:
        """Whether nobody asks anything of it."""
        return not self._here.total()

    @property
    def open_members(self) -> list[Member]:
        """Those that get requests."""
        return [member for member in self.members.values() if member.open]

    def entered(self, request: Request, now: float) -> None:
        """It has that request from now on."""
        self._here[key_of(request)] += 1
        self._counted(now)

    def left(self, request: Request, now: float) -> None:
        """And now no more."""
        self._here[key_of(request)] -= 1
        self._counted(now)

    def desired(self, now: float) -> int:
        """How many instances it should have."""
        there = len(self.open_members)
        wanted = self._autoscaler.desired(there, now)
        warm = self.prewarm.wanted(self.ladder.start_s, now)
        return max(wanted, int(warm), int(not self.idle))

    def next_timer(self, now: float) -> float | None:
        """When `desired` may change though nothing happens, but for what averages do."""
        return self.prewarm.next_timer(self.ladder.start_s, now)

    def new_member(self, now: float) -> Member:
        """One more, that is to be started."""
        self._numbers += 1
        scheduler = Scheduler(self.plan.capacity, CostModel(self.plan.estimate), self._options)
        return Member(
            f"{self.plan.name}/{self._numbers}",
            self.plan.name,
            scheduler,
            role=self._role(),
            ready_at=now + self.ladder.start_s,
        )

    def least_busy(self) -> Member | None:
        """The one that is missed least."""
        return min(
            self.open_members,
            key=lambda member: (member.standing is Standing.RUNNING, len(member.scheduler)),
            default=None,
        )

    def _counted(self, now: float) -> None:
        self._autoscaler.observe(self._here, now)
        if self.idle:
            self.prewarm.idle(now)
        else:
            self.prewarm.used(now)

    def _role(self) -> Role:
        if not self.plan.prefills:
            return Role.ANY
        prefilling = sum(member.role is Role.PREFILL for member in self.members.values())
        return Role.PREFILL if prefilling < self.plan.prefills else Role.DECODE


def key_of(request: Request) -> Key:
    return request.chain[0] if isinstance(request, TailRequest) else request.model
