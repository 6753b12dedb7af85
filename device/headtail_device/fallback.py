"""What the edge does not answer is answered here."""

from collections import deque
from dataclasses import dataclass

from headtail_device.config import Late
from headtail_device.delivery import Checkout
from headtail_device.head import Head
from headtail_device.ledger import Latency, Outcome
from headtail_device.notices import Notices
from headtail_device.record import FrameRecord
from headtail_device.source.frame import Frame
from headtail_fabric.clock import Clock
from headtail_fabric.errors import HeadtailError
from headtail_models.task import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class _Debt:
    frame: Frame
    outcome: Outcome
    reason: str
    spent_s: float


class Fallback:
    """Frames owed an answer by the whole model, paid one at a time, oldest debt first.

    `late` says what becomes of a frame whose deadline has passed: a file wants every frame
    answered, a live camera only what is still news.
    """

    def __init__(
        self, *, head: Head, checkout: Checkout, clock: Clock, late: Late, notices: Notices
    ) -> None:
        self._head = head
        self._checkout = checkout
        self._clock = clock
        self._late = late
        self._notices = notices
        self._debts: deque[_Debt] = deque()

    def __len__(self) -> int:
        return len(self._debts)

    def owe(self, frame: Frame, outcome: Outcome, reason: str, *, spent_s: float = 0.0) -> None:
        """A frame to be answered with that outcome; `spent_s` is what it has cost here already."""
        self._debts.append(_Debt(frame=frame, outcome=outcome, reason=reason, spent_s=spent_s))

    def pay(self) -> None:
        """End the oldest debt: as it was owed, EXPIRED, or FAILED when the model can't."""
        debt = self._debts.popleft()
        began_at = self._clock.now()
        if self._late == "expire" and began_at >= debt.frame.deadline_at:
            self._leave(debt, Outcome.EXPIRED, debt.reason or "its deadline passed")
            return
        try:
            answer = self._head.whole(debt.frame.data)
        except (HeadtailError, ValueError) as error:
            self._notices.tell(("whole", type(error)), "the whole model failed", error=error)
            self._leave(debt, Outcome.FAILED, f"the whole model failed: {error}")
            return
        now = self._clock.now()
        latency = Latency(
            head_s=debt.spent_s + now - began_at, total_s=now - debt.frame.captured_at
        )
        self._leave(debt, debt.outcome, debt.reason, latency=latency, answer=answer)

    def _leave(
        self,
        debt: _Debt,
        outcome: Outcome,
        reason: str,
        *,
        latency: Latency | None = None,
        answer: Answer | None = None,
    ) -> None:
        record = FrameRecord(
            index=debt.frame.index,
            origin=debt.frame.origin,
            outcome=outcome,
            captured_at=debt.frame.captured_at,
            latency=latency,
            answer=answer,
            reason=reason,
        )
        self._checkout.leave(record, debt.frame.data)
