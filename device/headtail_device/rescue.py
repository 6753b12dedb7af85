"""What the edge does not answer: spooled out of contact, else answered here."""

from dataclasses import dataclass

from headtail_device.decision import Decision, Experience
from headtail_device.fallback import Fallback
from headtail_device.head import Encoded
from headtail_device.ledger import Outcome
from headtail_device.placement import Remote
from headtail_device.policy import Policy
from headtail_device.record import Cost
from headtail_device.source.frame import Frame
from headtail_device.spool import Spooler
from headtail_fabric.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescue:
    """Tells the policy that a way was given up, and finds the frame another one. Of a frame that
    was decided to be answered here, the fallback tells."""

    fallback: Fallback
    spooler: Spooler | None
    policy: Policy
    clock: Clock

    def out_of_contact(
        self, frame: Frame, decision: Decision, way: Remote, encoded: Encoded, reason: str
    ) -> None:
        """The edge is gone: into the spool, where there is one and it has room."""
        spooled = self.spooler is not None and self.spooler.put(
            frame, way, encoded, reason, decision=decision
        )
        if spooled or decision.needs_edge:
            self.given_up(decision, encoded)
        if not spooled:
            self._owe(frame, decision, encoded, reason)

    def unanswered(
        self,
        frame: Frame,
        decision: Decision,
        encoded: Encoded | None,
        reason: str,
        *,
        fault: bool = False,
    ) -> None:
        """The edge is there, but does not answer this one; `fault`: it never will. `encoded` is
        None where it was the head that failed."""
        if decision.needs_edge:
            self.given_up(decision, encoded, fault=fault)
        self._owe(frame, decision, encoded, reason)

    def given_up(self, decision: Decision, encoded: Encoded | None, *, fault: bool = False) -> None:
        """What was decided does not come about."""
        now = self.clock.now()
        # The head that a frame for the spool takes is none of a local decision's.
        head_s = encoded.head_s if encoded is not None and decision.needs_edge else 0.0
        was = Experience(
            device_s=head_s,
            total_s=now - decision.decided_at,
            answered=False,
            fault=fault,
        )
        self.policy.finished(decision, was, now)

    def _owe(self, frame: Frame, decision: Decision, encoded: Encoded | None, reason: str) -> None:
        self.fallback.owe(
            frame,
            decision,
            Outcome.DEGRADED,
            reason,
            spent=Cost() if encoded is None else encoded.cost,
            verdicts=() if encoded is None else encoded.verdicts,
        )
