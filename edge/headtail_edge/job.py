"""A request that was checked and accepted."""

import msgspec

from headtail_edge.mixing import Hop
from headtail_edge.plan import PlanKey, TailPlan
from headtail_edge.tenants import Flow
from headtail_fabric.wire import Buffer, TensorInfo


class Job(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One request on its way to a worker; `payload` is the buffer that it came in.

    It is `alone` when a worker process died with it: it is tried once more, and takes nobody along.
    """

    session: bytes
    id: int
    plan: TailPlan
    tensor: TensorInfo
    payload: Buffer
    arrived_at: float
    deadline_at: float
    share: Flow
    alone: bool = False

    @property
    def key(self) -> PlanKey:
        return self.plan.key

    @property
    def codec(self) -> str:
        return self.tensor.codec

    @property
    def gmacs(self) -> float:
        return self.plan.gmacs

    @property
    def hops(self) -> tuple[Hop, ...]:
        return self.plan.hops

    @property
    def flow(self) -> str:
        return self.share.name

    @property
    def weight(self) -> float:
        return self.share.weight

    @property
    def quota(self) -> int:
        return self.share.quota
