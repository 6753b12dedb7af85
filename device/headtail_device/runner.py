"""The device's decisions, frame by frame: a core without threads, sockets or files.

    frame -> placed -> head -> submitted -> answered                              EDGE
                   |     |       |-> the edge fails it, is too slow -> owed
                   |     |       `-> the edge is gone -> spooled, or owed         SPOOLED
                   |     `-> a gate ends it                                       EXIT, FILTERED
                   |-> no edge -> head -> spooled, or owed
                   `-> no edge, and no spool -> owed -> whole model, or an exit   DEGRADED

What the edge does not answer is *owed*: the picture is kept until it has its outcome, and it is
answered here (`Fallback`), one at a time, so that events are heard in between. Out of contact a
frame goes to the spool instead, where there is one and it has room (`Spooler`).
Every frame that was accepted leaves once, in order, through the `Checkout`.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, assert_never

from headtail_device.config import Late
from headtail_device.delivery import Checkout
from headtail_device.edge_state import EdgeState
from headtail_device.fallback import Fallback
from headtail_device.flights import Flight, Flights
from headtail_device.giver import BundleGiver
from headtail_device.head import Encoded, Ended, Head
from headtail_device.ledger import Latency, Outcome
from headtail_device.notices import Notices
from headtail_device.placement import Local, Observation, Policy, Remote
from headtail_device.record import FrameRecord, by_edge
from headtail_device.source.frame import Dropped, Frame, Item, Unreadable
from headtail_device.spool import Spooler
from headtail_fabric.clock import Clock
from headtail_fabric.errors import HeadtailError, PeerError
from headtail_fabric.logs import fields
from headtail_fabric.peer.errors import WindowFullError
from headtail_fabric.peer.events import (
    Answered,
    BundleAccepted,
    BundleDeclined,
    BundleWanted,
    ClientEvent,
    Connected,
    Disconnected,
    Expired,
    Failed,
    Refused,
)
from headtail_fabric.peer.ports import ClientPort
from headtail_fabric.wire import Hints, WireError

log = logging.getLogger(__name__)

_NO_EDGE: Final = (
    "the edge can't be used, frames are answered here or spooled until it can: check that it runs "
    "and serves the bundle, and that its address and keys are right"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerSettings:
    """`late`: see `Fallback`. `max_in_flight` bounds what is asked of the edge at once, besides the
    edge's own window; `patience_s` is how long the first frame waits for the edge before it is
    computed here."""

    late: Late
    max_in_flight: int
    patience_s: float


class Runner:
    """Feed it with `on_item` while `wants_frame`, and with every event; call `work` while
    `has_work`. `now` is the clock's: computing takes time, so it is read, not passed.

    `packed` gives the packed bundle, for an edge that lacks it; None forbids to push it. Without a
    `spooler` nothing waits for an edge that is gone.
    """

    def __init__(
        self,
        *,
        port: ClientPort,
        head: Head,
        policy: Policy,
        checkout: Checkout,
        clock: Clock,
        settings: RunnerSettings,
        packed: Callable[[], bytes] | None,
        spooler: Spooler | None = None,
    ) -> None:
        self._port = port
        self._head = head
        self._policy = policy
        self._checkout = checkout
        self._clock = clock
        self._settings = settings
        self._spooler = spooler
        self._notices = Notices()
        self._giver = BundleGiver(
            port=port, digest=head.digest, packed=packed, notices=self._notices
        )
        self._fallback = Fallback(
            head=head, checkout=checkout, clock=clock, late=settings.late, notices=self._notices
        )
        self._edge = EdgeState(head.digest)
        self._hints: Hints | None = None
        self._flights = Flights()
        self._patient_until = clock.now() + settings.patience_s

    def __repr__(self) -> str:
        return f"<Runner {self._edge!r} in_flight={len(self._flights)} owed={len(self._fallback)}>"

    @property
    def edge(self) -> EdgeState:
        return self._edge

    @property
    def pushed_bytes(self) -> int:
        """Size of the packed bundles given to the edge."""
        return self._giver.given_bytes

    @property
    def late_answers(self) -> int:
        """Answers of the edge that came after the frame had been answered here, and before its
        deadline; they are dropped."""
        return self._flights.late_answers

    @property
    def spooler(self) -> Spooler | None:
        return self._spooler

    @property
    def in_flight(self) -> int:
        """Frames at the edge, those from the spool included."""
        spooled = 0 if self._spooler is None else self._spooler.in_flight
        return len(self._flights) + spooled

    @property
    def has_work(self) -> bool:
        """Whether `work` has something to do."""
        return len(self._fallback) > 0

    @property
    def idle(self) -> bool:
        """Whether every accepted frame has its outcome, and of the spool nothing can be sent."""
        if self._flights or self.has_work:
            return False
        return self._spooler is None or not (self._edge.ready and self._spooler.hopeful)

    @property
    def wants_frame(self) -> bool:
        """Whether a frame could be handled now, at the edge or here."""
        if self.has_work or len(self._flights) >= self._settings.max_in_flight:
            return False
        if self._edge.ready:
            return self._port.free_window() > 0
        return self._clock.now() >= self._patient_until

    @property
    def patience_left_s(self) -> float:
        """For how long no frame is wanted unless the edge becomes ready first."""
        return max(0.0, self._patient_until - self._clock.now())

    @property
    def next_timer_in_s(self) -> float | None:
        """How long until `on_time` has something to do, if nothing happens before."""
        waits = [self._flights.due_in_s(self._clock.now())]
        if self._spooler is not None:
            waits.append(self._spooler.due_in_s(self._edge, live_in_flight=len(self._flights)))
        return min((wait_s for wait_s in waits if wait_s is not None), default=None)

    def on_item(self, item: Item) -> None:
        """Accept what the source gave."""
        self._checkout.accept(item.index)
        match item:
            case Frame():
                if self._spooler is not None:
                    self._spooler.live_frame()
                self._place(item)
            case Unreadable():
                self._leave_unseen(item, Outcome.UNREADABLE, item.reason)
            case Dropped():
                self._leave_unseen(item, Outcome.DROPPED, item.reason)
            case _:
                assert_never(item)

    def on_event(self, event: ClientEvent) -> None:
        """Follow what the port tells."""
        self._edge.on_event(event)
        if isinstance(event, Failed):
            self._edge.on_failure(event.code)
        if self._spooler is not None and self._spooler.on_event(event, self._edge):
            return
        match event:
            case Connected():
                self._notices.renew()
                log.info("edge connected", extra=fields(edge=event.offer.name))
            case Disconnected():
                self._lose_edge(event)
            case Answered():
                self._answered(event)
            case Refused():
                self._edge.on_refusal(event.retry_after_s, self._clock.now())
                self._fall_back(event.id, "the edge was too busy")
            case Failed():
                self._failed(event)
            case Expired():
                self._fall_back(event.id, "the edge did not answer in time")
            case BundleWanted():
                self._giver.give(event.digest)
            case BundleAccepted():
                log.info("edge serves the bundle", extra=fields(digest=event.digest))
            case BundleDeclined():
                log.error("edge takes no bundle from here", extra=fields(reason=event.reason))
            case _:
                assert_never(event)

    def work(self) -> None:
        """Answer one owed frame."""
        self._fallback.pay()

    def wind_up(self) -> None:
        """This run ends: nothing spooled is sent any more."""
        if self._spooler is not None:
            self._spooler.hold()

    def on_time(self) -> None:
        """Answer here what the edge can't answer in time any more; send what is spooled."""
        for flight in self._flights.overdue(self._clock.now()):
            self._owe_encoded(flight.frame, flight.encoded, "the edge did not answer in time")
        if self._spooler is not None:
            self._spooler.work(self._edge, live_in_flight=len(self._flights))

    def give_up_edge(self, reason: str) -> None:
        """Wait for no answer any more: everything in flight is spooled or owed."""
        requests, flights = self._flights.clear()
        for request_id in requests:
            self._port.cancel(request_id)
        for flight in flights:
            self._lose_contact(flight.frame, flight.way, flight.encoded, reason)
        if self._spooler is not None:
            self._spooler.recall()

    def _place(self, frame: Frame) -> None:
        now = self._clock.now()
        seen = Observation(
            edge_ready=self._edge.ready,
            free_window=self._port.free_window(),
            in_flight=len(self._flights),
            retry_in_s=self._edge.retry_in_s(now),
            remaining_s=frame.deadline_at - now,
            hints=self._hints,
            link=self._port.estimate(),
        )
        placement = self._policy.place(seen)
        if not isinstance(placement, Local):
            self._send(frame, placement)
        elif placement.degraded:
            if not seen.edge_ready:
                self._notices.tell("degraded", _NO_EDGE, edge=repr(self._edge))
            if not seen.edge_ready and self._spooler is not None and self._spooler.admits():
                self._spool(frame, self._spooler.way, seen.obstacle)
            else:
                self._owe(frame, seen.obstacle)
        else:
            self._fallback.owe(frame, Outcome.LOCAL, "")

    def _spool(self, frame: Frame, way: Remote, reason: str) -> None:
        encoded = self._encode(frame, way)
        if encoded is not None:
            self._lose_contact(frame, way, encoded, reason)

    def _send(self, frame: Frame, way: Remote) -> None:
        encoded = self._encode(frame, way)
        if encoded is None:
            return
        now = self._clock.now()
        remaining_s = frame.deadline_at - now
        if remaining_s <= 0:
            self._owe_encoded(frame, encoded, "the head took too long")
            return
        try:
            request_id = self._port.submit(
                bundle=self._head.digest,
                cut=way.cut,
                tensors=encoded.tensors,
                payloads=encoded.payloads,
                deadline_s=remaining_s,
            )
        except WindowFullError:
            # The connection broke, or the edge shrank its window, while the head ran.
            self._lose_contact(frame, way, encoded, "the connection broke")
            return
        except WireError as error:
            self._notices.tell(type(error), "a frame can't be sent", error=error)
            self._owe_encoded(frame, encoded, f"it can't be sent: {error}")
            return
        # This thread may be in the middle of another frame's head when the time comes.
        reserve_s = self._fallback.needs_s(encoded.verdicts) + encoded.head_s
        due_at = frame.deadline_at - min(reserve_s, remaining_s / 2)
        flight = Flight(frame=frame, way=way, encoded=encoded, due_at=due_at)
        self._flights.add(request_id, flight)

    def _encode(self, frame: Frame, way: Remote) -> Encoded | None:
        """None when the frame is owed, or a gate has ended it."""
        try:
            made = self._head.run(frame.data, way)
        except (HeadtailError, ValueError) as error:
            self._notices.tell(type(error), "the head failed", error=error)
            self._owe(frame, f"the head failed: {error}")
            return None
        if isinstance(made, Ended):
            self._ended(frame, way, made)
            return None
        return made

    def _ended(self, frame: Frame, way: Remote, ended: Ended) -> None:
        record = FrameRecord(
            index=frame.index,
            origin=frame.origin,
            outcome=ended.outcome,
            captured_at=frame.captured_at,
            cut=way.cut,
            latency=Latency(
                head_s=ended.cost.seconds, total_s=self._clock.now() - frame.captured_at
            ),
            macs=ended.cost.macs,
            gate=ended.gate,
            verdicts=ended.verdicts,
            answer=ended.answer,
        )
        self._checkout.leave(record, frame.picture)

    def _answered(self, event: Answered) -> None:
        flight = self._flights.end(event.id, answered=True)
        if flight is None:
            return
        self._hints = event.hints
        frame, encoded = flight.frame, flight.encoded
        try:
            answer = self._head.decode(event.tensors, event.payloads, encoded.geometry)
        except PeerError as error:
            self._notices.tell(type(error), "the edge's answer makes no sense", error=error)
            self._owe_encoded(frame, encoded, f"the edge's answer: {error}")
            return
        record = FrameRecord(
            index=frame.index,
            origin=frame.origin,
            outcome=Outcome.EDGE,
            captured_at=frame.captured_at,
            cut=flight.way.cut,
            codec=flight.way.codec,
            payload_bytes=encoded.payload_bytes,
            macs=encoded.macs,
            verdicts=encoded.verdicts,
        )
        now = self._clock.now()
        done = by_edge(record, event, head_s=encoded.head_s, answer=answer, now=now)
        self._checkout.leave(done, frame.picture)

    def _failed(self, event: Failed) -> None:
        if event.id in self._flights:
            self._notices.tell(event.code, "the edge failed a request", error=event.message)
        self._fall_back(event.id, f"the edge failed it: {event.message}")

    def _fall_back(self, request_id: int, reason: str) -> None:
        flight = self._flights.end(request_id)
        if flight is None:
            return
        if self._edge.ready:
            self._owe_encoded(flight.frame, flight.encoded, reason)
        else:
            self._lose_contact(flight.frame, flight.way, flight.encoded, reason)

    def _lose_contact(self, frame: Frame, way: Remote, encoded: Encoded, reason: str) -> None:
        """A frame that the edge would have had."""
        if self._spooler is None or not self._spooler.put(frame, way, encoded, reason):
            self._owe_encoded(frame, encoded, reason)

    def _owe(self, frame: Frame, reason: str) -> None:
        self._fallback.owe(frame, Outcome.DEGRADED, reason)

    def _owe_encoded(self, frame: Frame, encoded: Encoded, reason: str) -> None:
        self._fallback.owe(
            frame, Outcome.DEGRADED, reason, spent=encoded.cost, verdicts=encoded.verdicts
        )

    def _lose_edge(self, event: Disconnected) -> None:
        tell = log.error if event.final else log.warning
        tell("edge lost", extra=fields(reason=event.reason, final=event.final))
        if event.final:
            self._patient_until = self._clock.now()
        self.give_up_edge(f"the connection broke: {event.reason}")

    def _leave_unseen(self, item: Unreadable | Dropped, outcome: Outcome, reason: str) -> None:
        record = FrameRecord(index=item.index, origin=item.origin, outcome=outcome, reason=reason)
        self._checkout.leave(record, None)
