"""A request that was checked and accepted."""

from dataclasses import dataclass

from headtail_edge.plan import PlanKey, TailPlan
from headtail_fabric.wire import Buffer, TensorInfo


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Job:
    """One request on its way to a worker; `payload` is the buffer that it came in."""

    session: bytes
    id: int
    plan: TailPlan
    tensor: TensorInfo
    payload: Buffer
    arrived_at: float
    deadline_at: float

    @property
    def key(self) -> PlanKey:
        return self.plan.key
