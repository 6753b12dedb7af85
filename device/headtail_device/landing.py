"""A flight comes to its end: by the edge's answer, or by this device's, which was sooner."""

from dataclasses import dataclass

from headtail_device.decision import Experience
from headtail_device.delivery import Checkout
from headtail_device.flights import Flight
from headtail_device.head import Head
from headtail_device.ledger import Latency, Outcome
from headtail_device.notices import Notices
from headtail_device.policy import Policy
from headtail_device.record import FrameRecord, by_edge
from headtail_device.rescue import Rescue
from headtail_device.whole import Computed
from headtail_fabric.clock import Clock
from headtail_fabric.errors import PeerError
from headtail_fabric.peer.events import Answered


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """Makes the record, and tells the policy."""

    head: Head
    policy: Policy
    rescue: Rescue
    checkout: Checkout
    clock: Clock
    notices: Notices

    def by_edge(self, flight: Flight, event: Answered, beside: Computed | None) -> None:
        """`beside`: what this device computed as well, in vain."""
        frame, encoded = flight.frame, flight.encoded
        try:
            answer = self.head.decode(event.tensors, event.payloads, encoded.geometry)
        except PeerError as error:
            self.notices.tell(type(error), "the edge's answer makes no sense", error=error)
            self.unanswered(flight, beside, f"the edge's answer: {error}", fault=True)
            return
        record = FrameRecord(
            index=frame.index,
            origin=frame.origin,
            outcome=Outcome.EDGE,
            captured_at=frame.captured_at,
            decision=flight.decision,
            cut=flight.way.cut,
            codec=flight.way.codec,
            payload_bytes=encoded.payload_bytes,
            macs=encoded.macs + (0 if beside is None else beside.cost.macs),
            verdicts=encoded.verdicts,
        )
        now = self.clock.now()
        done = by_edge(record, event, head_s=encoded.head_s, answer=answer, now=now)
        assert done.latency is not None, "the edge has answered"
        was = Experience(
            device_s=encoded.head_s,
            total_s=now - flight.decision.decided_at,
            payload_bytes=encoded.payload_bytes,
            wire_s=done.latency.wire_s,
            queue_s=done.latency.queue_s,
            server_s=done.latency.tail_s,
        )
        self.policy.finished(flight.decision, was, now)
        self.checkout.leave(done, frame.picture)

    def by_device(self, flight: Flight, computed: Computed, reason: str) -> None:
        """The answer that was computed beside the request."""
        frame, encoded, now = flight.frame, flight.encoded, self.clock.now()
        self.rescue.given_up(flight.decision, encoded)
        record = FrameRecord(
            index=frame.index,
            origin=frame.origin,
            outcome=Outcome.DEGRADED,
            captured_at=frame.captured_at,
            decision=flight.decision,
            latency=Latency(
                head_s=encoded.head_s + computed.cost.seconds, total_s=now - frame.captured_at
            ),
            macs=encoded.macs + computed.cost.macs,
            verdicts=encoded.verdicts,
            answer=computed.answer,
            reason=reason,
        )
        self.checkout.leave(record, frame.picture)

    def unanswered(
        self, flight: Flight, beside: Computed | None, reason: str, *, fault: bool = False
    ) -> None:
        """The edge is there, but does not answer."""
        if beside is not None:
            self.by_device(flight, beside, reason)
            return
        self.rescue.unanswered(flight.frame, flight.decision, flight.encoded, reason, fault=fault)

    def out_of_contact(self, flight: Flight, beside: Computed | None, reason: str) -> None:
        """The edge is gone."""
        if beside is not None:
            self.by_device(flight, beside, reason)
            return
        self.rescue.out_of_contact(
            flight.frame, flight.decision, flight.way, flight.encoded, reason
        )
