"""From a decision to a request on its way: head, gates, encoding, submission."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from headtail_device.announcer import Announcer
from headtail_device.decision import Decision, Experience
from headtail_device.delivery import Checkout
from headtail_device.fallback import Fallback
from headtail_device.flights import Flight, Flights
from headtail_device.frame_traces import FrameTraces
from headtail_device.head import Encoded, Ended, Head
from headtail_device.ledger import Latency
from headtail_device.notices import Notices
from headtail_device.placement import Remote
from headtail_device.policy import Policy
from headtail_device.record import FrameRecord
from headtail_device.rescue import Rescue
from headtail_device.source.frame import Frame
from headtail_fabric.clock import Clock
from headtail_fabric.errors import HeadtailError
from headtail_fabric.peer.errors import WindowFullError
from headtail_fabric.peer.ports import ClientPort
from headtail_fabric.wire import WireError


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """Puts requests among the flights, and frames that can't be sent into the rescue. With `hedge`
    a request has until the upper end of its forecast before the frame is computed here as well."""

    port: ClientPort
    head: Head
    policy: Policy
    flights: Flights
    rescue: Rescue
    fallback: Fallback
    checkout: Checkout
    clock: Clock
    notices: Notices
    hedge: bool
    announcer: Announcer
    traces: FrameTraces | None = None

    def send(self, frame: Frame, decision: Decision, way: Remote) -> None:
        """To the edge."""
        encoded = self._encode(frame, decision, way, partial(self.announcer.passed, way.cut))
        if encoded is None:
            return
        now = self.clock.now()
        remaining_s = frame.deadline_at - now
        if remaining_s <= 0:
            self.rescue.unanswered(frame, decision, encoded, "the head took too long")
            return
        try:
            request_id = self.port.submit(
                bundle=self.head.digest,
                cut=way.cut,
                tensors=encoded.tensors,
                payloads=encoded.payloads,
                deadline_s=remaining_s,
                trace="" if self.traces is None else self.traces.sending(frame, encoded, now),
            )
        except WindowFullError:
            # The connection broke, or the edge shrank its window, while the head ran.
            self.rescue.out_of_contact(frame, decision, way, encoded, "the connection broke")
            return
        except WireError as error:
            self.notices.tell(type(error), "a frame can't be sent", error=error)
            reason = f"it can't be sent: {error}"
            self.rescue.unanswered(frame, decision, encoded, reason, fault=True)
            return
        # This thread may be in the middle of another frame's head when the time comes.
        reserve_s = self.fallback.needs_s(encoded.verdicts) + encoded.head_s
        flight = Flight(
            frame=frame,
            decision=decision,
            way=way,
            encoded=encoded,
            sent_at=now,
            due_at=frame.deadline_at - min(reserve_s, remaining_s / 2),
            hedge_at=self._hedge_at(decision),
        )
        self.flights.add(request_id, flight)
        self.announcer.sent(way.cut)

    def spool(self, frame: Frame, decision: Decision, way: Remote, reason: str) -> None:
        """Into the spool, since there is no edge."""
        encoded = self._encode(frame, decision, way)
        if encoded is not None:
            self.rescue.out_of_contact(frame, decision, way, encoded, reason)

    def _hedge_at(self, decision: Decision) -> float | None:
        if not self.hedge or decision.forecast is None:
            return None
        return decision.decided_at + decision.forecast.upper_s

    def _encode(
        self,
        frame: Frame,
        decision: Decision,
        way: Remote,
        passed: Callable[[], None] | None = None,
    ) -> Encoded | None:
        """None when the frame is owed, or a gate has ended it."""
        try:
            made = self.head.run(frame.data, way, decision.exit_point, passed)
        except (HeadtailError, ValueError) as error:
            self.notices.tell(type(error), "the head failed", error=error)
            self.rescue.unanswered(frame, decision, None, f"the head failed: {error}", fault=True)
            return None
        if isinstance(made, Ended):
            self._ended(frame, decision, way, made)
            return None
        return made

    def _ended(self, frame: Frame, decision: Decision, way: Remote, ended: Ended) -> None:
        now = self.clock.now()
        if decision.needs_edge:
            was = Experience(
                device_s=ended.cost.seconds, total_s=now - decision.decided_at, exited=True
            )
            self.policy.finished(decision, was, now)
        else:
            self.rescue.given_up(decision, None)
        record = FrameRecord(
            index=frame.index,
            origin=frame.origin,
            outcome=ended.outcome,
            captured_at=frame.captured_at,
            decision=decision,
            cut=way.cut,
            latency=Latency(head_s=ended.cost.seconds, total_s=now - frame.captured_at),
            macs=ended.cost.macs,
            gate=ended.gate,
            verdicts=ended.verdicts,
            answer=ended.answer,
        )
        self.checkout.leave(record, frame.picture)
