"""The whole model, run here, and what it takes."""

from dataclasses import dataclass

from headtail_device.head import Head
from headtail_device.notices import Notices
from headtail_device.record import Cost
from headtail_fabric.clock import Clock
from headtail_fabric.errors import HeadtailError
from headtail_models.task import Answer, Frame


@dataclass(frozen=True, slots=True, kw_only=True)
class Computed:
    """An answer of this device."""

    answer: Answer
    cost: Cost


class WholeModel:
    """`takes_s` is what it took last, 0 before it has run."""

    def __init__(self, *, head: Head, clock: Clock, notices: Notices) -> None:
        self._head = head
        self._clock = clock
        self._notices = notices
        self.takes_s = 0.0

    def run(self, data: Frame) -> Computed | str:
        """The answer, or why there is none."""
        began_at = self._clock.now()
        try:
            answer = self._head.whole(data)
        except (HeadtailError, ValueError) as error:
            self._notices.tell(("whole", type(error)), "the whole model failed", error=error)
            return f"the whole model failed: {error}"
        self.takes_s = self._clock.now() - began_at
        return Computed(answer=answer, cost=Cost(seconds=self.takes_s, macs=self._head.whole_macs))
