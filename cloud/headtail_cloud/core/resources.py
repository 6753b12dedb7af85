"""What admission and the iteration rule both look at."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headtail_cloud.core.cost_model import CostModel
from headtail_cloud.core.fairness import FairShare
from headtail_cloud.core.kv_cache import KvCache
from headtail_cloud.core.options import SchedulerOptions
from headtail_cloud.core.request import Segment
from headtail_cloud.core.work import Work


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """One engine's. `max_batch`: items of a segment, or sequences, in one iteration."""

    max_batch: int
    cache: KvCache
    shares: FairShare
    costs: CostModel
    options: SchedulerOptions

    def estimate(self, work: Work) -> float:
        """Seconds."""
        return self.costs.estimate(work)

    @property
    def margin(self) -> float:
        """How many times its estimate an iteration takes at most, as a rule."""
        return self.costs.margin

    def item_s(self, segment: Segment) -> float:
        """Of one item by itself."""
        return self.costs.segment_s(segment, 1)

    def chain_s(self, chain: Iterable[Segment]) -> float:
        """Of one item along all those segments, each an iteration of its own."""
        return sum(map(self.item_s, chain))

    def items_s(self, items: Counter[Segment], *, batch: int | None = None) -> float:
        """Of that many items of each segment, in full batches; the last one counts as full, for
        others will join it."""
        size = batch or self.max_batch
        return sum(
            -(-count // size) * self.costs.segment_s(segment, size)
            for segment, count in items.items()
        )

    def batch(self, chain: Sequence[Segment], deadline_s: float) -> int:
        """The batch that a tail which has to wait leaves time for: the largest that takes no more
        than half its deadline; at least 1. Batches that had to be small to be in time would serve
        far fewer."""
        size = self.max_batch
        while size > 1 and self._batch_s(chain, size) > deadline_s / 2:
            size //= 2
        return size

    def longest_wait_s(self, chain: Sequence[Segment], deadline_s: float) -> float:
        """How long an iteration may still take when such a tail comes: then its batch must fit, and
        as it is planned, the tail must be accepted."""
        batch_s = self._batch_s(chain, self.batch(chain, deadline_s))
        planned_s = deadline_s * self.options.headroom - batch_s
        return min(deadline_s - batch_s, planned_s * self.margin)

    def _batch_s(self, chain: Sequence[Segment], size: int) -> float:
        return sum(self.costs.segment_s(segment, size) for segment in chain)
