"""What the edge does not answer is answered here: by the whole model, or where that would be too
late, by the deepest exit that the frame has passed."""

from collections import deque
from dataclasses import dataclass

from headtail_device.config import Late
from headtail_device.decision import Decision, Experience
from headtail_device.delivery import Checkout
from headtail_device.early import EarlyAnswer
from headtail_device.head import Head
from headtail_device.ledger import Latency, Outcome
from headtail_device.policy import Policy
from headtail_device.record import Cost, FrameRecord
from headtail_device.source.frame import Frame
from headtail_device.whole import Computed, WholeModel
from headtail_fabric.clock import Clock
from headtail_models.head_chain import Verdict
from headtail_models.task import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class _Debt:
    frame: Frame
    decision: Decision
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
        self,
        *,
        head: Head,
        whole: WholeModel,
        checkout: Checkout,
        policy: Policy,
        clock: Clock,
        late: Late,
    ) -> None:
        self._head = head
        self._whole = whole
        self._checkout = checkout
        self._policy = policy
        self._clock = clock
        self._late = late
        self._debts: deque[_Debt] = deque()

    def __len__(self) -> int:
        return len(self._debts)

    def needs_s(self, verdicts: tuple[Verdict, ...]) -> float:
        """How long before its deadline a frame should be owed, to be answered in time: nothing
        where an exit has an answer, else what the whole model took last."""
        return 0.0 if self._head.early(verdicts) is not None else self._whole.takes_s

    def owe(
        self,
        frame: Frame,
        decision: Decision,
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
            decision=decision,
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
        made = self._whole.run(debt.frame.data)
        if isinstance(made, Computed):
            self._leave(debt, debt.outcome, debt.reason, computed=made)
        else:
            self._leave(debt, Outcome.FAILED, made)

    def _only_early(self, debt: _Debt, *, ahead: int) -> bool:
        """Whether an exit has an answer, in time, and the whole model would have none."""
        now = self._clock.now()
        if debt.early is None or (self._late == "expire" and now > debt.frame.deadline_at):
            return False
        return now + (ahead + 1) * self._whole.takes_s >= debt.frame.deadline_at

    def _pay_early(self, debt: _Debt) -> None:
        assert debt.early is not None, "checked by the caller"
        self._leave(debt, debt.outcome, debt.reason, early=debt.early)

    def _leave(
        self,
        debt: _Debt,
        outcome: Outcome,
        reason: str,
        *,
        computed: Computed | None = None,
        early: EarlyAnswer | None = None,
    ) -> None:
        now, frame = self._clock.now(), debt.frame
        cost = Cost() if computed is None else computed.cost
        if not debt.decision.needs_edge:
            was = Experience(
                device_s=cost.seconds,
                total_s=now - debt.decision.decided_at,
                answered=computed is not None,
            )
            self._policy.finished(debt.decision, was, now)
        latency = None
        if computed is not None or early is not None:
            latency = Latency(
                head_s=debt.spent.seconds + cost.seconds, total_s=now - frame.captured_at
            )
        record = FrameRecord(
            index=frame.index,
            origin=frame.origin,
            outcome=outcome,
            captured_at=frame.captured_at,
            decision=debt.decision,
            latency=latency,
            macs=debt.spent.macs + cost.macs,
            gate="" if early is None else early.gate,
            verdicts=debt.verdicts,
            answer=_answer(computed, early),
            reason=reason,
        )
        self._checkout.leave(record, frame.picture)


def _answer(computed: Computed | None, early: EarlyAnswer | None) -> Answer | None:
    if computed is not None:
        return computed.answer
    return None if early is None else early.answer
