"""What the edge does not answer is answered here: by the whole model, or where that would be too
late, by the deepest exit that the frame has passed."""

from collections import deque
from dataclasses import dataclass

from headtail_device.config import Late
from headtail_device.delivery import Checkout
from headtail_device.early import EarlyAnswer
from headtail_device.head import Head
from headtail_device.ledger import Latency, Outcome
from headtail_device.notices import Notices
from headtail_device.record import Cost, FrameRecord
from headtail_device.source.frame import Frame
from headtail_fabric.clock import Clock
from headtail_fabric.errors import HeadtailError
from headtail_models.head_chain import Verdict
from headtail_models.task import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class _Debt:
    frame: Frame
    outcome: Outcome
    reason: str
    spent: Cost
    verdicts: tuple[Verdict, ...]
    early: EarlyAnswer | None


class Fallback:
    """Frames owed an answer, paid one at a time, oldest debt first; those that only an exit can
    answer in time are paid at once.

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
        self._whole_s = 0.0

    def __len__(self) -> int:
        return len(self._debts)

    def needs_s(self, verdicts: tuple[Verdict, ...]) -> float:
        """How long before its deadline a frame should be owed, to be answered in time: nothing
        where an exit has an answer, else what the whole model took last."""
        return 0.0 if self._head.early(verdicts) is not None else self._whole_s

    def owe(
        self,
        frame: Frame,
        outcome: Outcome,
        reason: str,
        *,
        spent: Cost | None = None,
        verdicts: tuple[Verdict, ...] = (),
    ) -> None:
        """A frame to be answered with that outcome; `spent` is what it has cost here already, and
        `verdicts` what the gates on the way said."""
        debt = _Debt(
            frame=frame,
            outcome=outcome,
            reason=reason,
            spent=spent or Cost(),
            verdicts=verdicts,
            early=self._head.early(verdicts),
        )
        if self._only_early(debt, ahead=len(self._debts)):
            self._pay_early(debt)
        else:
            self._debts.append(debt)

    def pay(self) -> None:
        """End the oldest debt: as it was owed, EXPIRED, or FAILED when the model can't."""
        debt = self._debts.popleft()
        began_at = self._clock.now()
        if self._only_early(debt, ahead=0):
            self._pay_early(debt)
            return
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
        self._whole_s = now - began_at
        self._leave(
            debt,
            debt.outcome,
            debt.reason,
            latency=self._latency(debt, now - began_at),
            macs=self._head.whole_macs,
            answer=answer,
        )

    def _only_early(self, debt: _Debt, *, ahead: int) -> bool:
        """Whether an exit has an answer, in time, and the whole model would have none."""
        now = self._clock.now()
        if debt.early is None or (self._late == "expire" and now > debt.frame.deadline_at):
            return False
        return now + (ahead + 1) * self._whole_s >= debt.frame.deadline_at

    def _pay_early(self, debt: _Debt) -> None:
        assert debt.early is not None, "checked by the caller"
        self._leave(
            debt,
            debt.outcome,
            debt.reason,
            latency=self._latency(debt, 0.0),
            gate=debt.early.gate,
            answer=debt.early.answer,
        )

    def _latency(self, debt: _Debt, more_s: float) -> Latency:
        total_s = self._clock.now() - debt.frame.captured_at
        return Latency(head_s=debt.spent.seconds + more_s, total_s=total_s)

    def _leave(
        self,
        debt: _Debt,
        outcome: Outcome,
        reason: str,
        *,
        latency: Latency | None = None,
        macs: int = 0,
        gate: str = "",
        answer: Answer | None = None,
    ) -> None:
        record = FrameRecord(
            index=debt.frame.index,
            origin=debt.frame.origin,
            outcome=outcome,
            captured_at=debt.frame.captured_at,
            latency=latency,
            macs=debt.spent.macs + macs,
            gate=gate,
            verdicts=debt.verdicts,
            answer=answer,
            reason=reason,
        )
        self._checkout.leave(record, debt.frame.picture)
