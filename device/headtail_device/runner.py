"""The device's decisions, frame by frame: a core without threads, sockets or files.

    frame -> placed -> head -> submitted -> answered                              EDGE
                   |     |       |-> the edge fails it, is too slow -> owed
                   |     |       |-> slower than forecast, hedged -> first of edge and device
                   |     |       `-> the edge is gone -> spooled, or owed         SPOOLED
                   |     `-> a gate ends it                                       EXIT, FILTERED
                   |-> no edge -> head -> spooled, or owed
                   `-> no edge, and no spool -> owed -> whole model, or an exit   DEGRADED

What the edge does not answer is *owed*: the picture is kept until it has its outcome, and it is
answered here (`Fallback`), one at a time, so that events are heard in between. Out of contact,
which is while there is no session or the edge does not serve the bundle, a frame that would have
been sent goes to the spool instead, where there is one and it has room (`Spooler`). One that is
answered here by choice is so then too, and so is one that the edge was merely too busy for.
Every frame that was accepted leaves once, in order, through the `Checkout`.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, assert_never

from headtail_device.announcer import Announcer
from headtail_device.config import Late
from headtail_device.decision import Decision, Reason
from headtail_device.delivery import Checkout
from headtail_device.depth import Depth
from headtail_device.edge_state import EdgeState
from headtail_device.fallback import Fallback
from headtail_device.flights import Flights
from headtail_device.frame_traces import FrameTraces
from headtail_device.giver import BundleGiver
from headtail_device.head import Head
from headtail_device.hedges import HedgeCount, Hedges
from headtail_device.landing import Landing
from headtail_device.ledger import Outcome
from headtail_device.notices import Notices
from headtail_device.placement import Local, Observation, Split
from headtail_device.policy import Policy
from headtail_device.record import FrameRecord
from headtail_device.rescue import Rescue
from headtail_device.sender import Sender
from headtail_device.source.frame import Dropped, Frame, Item, Unreadable
from headtail_device.spool import Spooler
from headtail_device.whole import WholeModel
from headtail_fabric.clock import Clock
from headtail_fabric.logs import fields
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
from headtail_fabric.wire import Hints

log = logging.getLogger(__name__)

_NO_EDGE: Final = (
    "the edge can't be used, frames are answered here or spooled until it can: check that it runs "
    "and serves the bundle, and that its address and keys are right"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerSettings:
    """`late`: see `Fallback`. `max_in_flight` bounds what is asked of the edge at once, besides the
    edge's own window and `Depth`; `patience_s` is how long the first frame waits for the edge
    before it is computed here; `hedge`: see `Hedges`; `announce_tails`: see `Announcer`."""

    late: Late
    max_in_flight: int
    patience_s: float
    hedge: bool = False
    announce_tails: bool = True


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
        traces: FrameTraces | None = None,
    ) -> None:
        self._port = port
        self._head = head
        self._policy = policy
        self._checkout = checkout
        self._clock = clock
        self._spooler = spooler
        self._notices = Notices()
        self._giver = BundleGiver(
            port=port, digest=head.digest, packed=packed, notices=self._notices
        )
        whole = WholeModel(head=head, clock=clock, notices=self._notices)
        self._fallback = Fallback(
            head=head,
            whole=whole,
            checkout=checkout,
            policy=policy,
            clock=clock,
            late=settings.late,
        )
        self._rescue = Rescue(fallback=self._fallback, spooler=spooler, policy=policy, clock=clock)
        self._edge = EdgeState(head.digest)
        self._hints: Hints | None = None
        self._flights = Flights()
        self._hedges = Hedges(whole, self._flights)
        self._hedges_won = 0
        self._depth = Depth(settings.max_in_flight)
        self._deadline_s = 0.0
        self._landing = Landing(
            head=head,
            policy=policy,
            rescue=self._rescue,
            checkout=checkout,
            clock=clock,
            notices=self._notices,
        )
        self._sender = Sender(
            port=port,
            head=head,
            policy=policy,
            flights=self._flights,
            rescue=self._rescue,
            fallback=self._fallback,
            checkout=checkout,
            clock=clock,
            notices=self._notices,
            hedge=settings.hedge,
            announcer=Announcer(
                port=port, digest=head.digest, clock=clock, on=settings.announce_tails
            ),
            traces=traces,
        )
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
    def hedges(self) -> HedgeCount:
        """Frames that were computed here while their request was out."""
        return HedgeCount(started=self._hedges.started, won=self._hedges_won)

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
        return len(self._fallback) > 0 or len(self._hedges) > 0

    @property
    def idle(self) -> bool:
        """Whether every accepted frame has its outcome, and of the spool nothing can be sent."""
        if self._flights or self.has_work:
            return False
        return self._spooler is None or not (self._edge.ready and self._spooler.hopeful)

    @property
    def wants_frame(self) -> bool:
        """Whether a frame could be handled now, at the edge or here."""
        if self.has_work or len(self._flights) >= self._depth.limit(self._deadline_s):
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
                self._refused(event)
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
        """Answer one owed frame, or get on with a hedged one."""
        if len(self._fallback):
            self._fallback.pay()
            return
        won = self._hedges.work()
        if won is not None:
            request_id, computed = won
            flight = self._flights.overtake(request_id)
            assert flight is not None, "hedges are of flights"
            self._hedges_won += 1
            reason = "the edge was slower than this device, which was asked as well"
            self._landing.by_device(flight, computed, reason)

    def wind_up(self) -> None:
        """This run ends: nothing spooled is sent any more."""
        if self._spooler is not None:
            self._spooler.hold()

    def on_time(self) -> None:
        """Answer here what the edge can't answer in time any more, compute what it is slow with;
        send what is spooled."""
        now = self._clock.now()
        for request_id, flight in self._flights.overdue(now):
            self._depth.overdue(sent_at=flight.sent_at, now=now)
            beside = self._hedges.end(request_id)
            self._landing.unanswered(flight, beside, "the edge did not answer in time")
        for request_id in self._flights.to_hedge(now):
            self._hedges.add(request_id)
        if self._spooler is not None:
            self._spooler.work(self._edge, live_in_flight=len(self._flights))

    def give_up_edge(self, reason: str) -> None:
        """Wait for no answer any more: everything in flight is spooled or owed."""
        requests, flights = self._flights.clear()
        self._depth.lost()
        for request_id in requests:
            self._port.cancel(request_id)
        for request_id, flight in flights:
            self._landing.out_of_contact(flight, self._hedges.end(request_id), reason)
        if self._spooler is not None:
            self._spooler.recall()

    def _place(self, frame: Frame) -> None:
        now = self._clock.now()
        self._deadline_s = frame.deadline_s
        seen = Observation(
            now=now,
            edge_ready=self._edge.ready,
            free_window=self._port.free_window(),
            in_flight=len(self._flights),
            oldest_s=self._flights.oldest_s(now),
            retry_in_s=self._edge.retry_in_s(now),
            remaining_s=frame.deadline_at - now,
            hints=self._hints,
            link=self._port.estimate(),
        )
        decision = self._policy.place(seen)
        if not isinstance(decision.placement, Local):
            self._sender.send(frame, decision, decision.placement)
        elif decision.placement.degraded:
            self._do_without(frame, decision, seen)
        else:
            self._fallback.owe(frame, decision, Outcome.LOCAL, "")

    def _do_without(self, frame: Frame, decision: Decision, seen: Observation) -> None:
        """The edge is missed."""
        if not seen.edge_ready:
            self._notices.tell("degraded", _NO_EDGE, edge=repr(self._edge))
        if not seen.edge_ready and self._spooler is not None and self._spooler.admits():
            self._sender.spool(frame, decision, self._spooler.way, seen.obstacle)
        else:
            self._fallback.owe(frame, decision, Outcome.DEGRADED, seen.obstacle)

    def _answered(self, event: Answered) -> None:
        flight = self._flights.end(event.id, answered=True)
        if flight is not None:
            self._hints = event.hints
            self._depth.answered(sent_at=flight.sent_at, now=event.received_at)
            self._landing.by_edge(flight, event, self._hedges.end(event.id))

    def _refused(self, event: Refused) -> None:
        """Go the way that the edge offers instead, once; else do without it."""
        self._hints, now = event.hints, self._clock.now()
        self._edge.on_refusal(event.retry_after_s, now)
        flight = self._flights.end(event.id)
        if flight is None:
            return
        beside, reason = self._hedges.end(event.id), "the edge was too busy"
        offered = event.instead is not None and event.instead.cut and event.instead.codec
        if beside is not None or not offered or flight.decision.reason is Reason.ADVISED:
            self._landing.unanswered(flight, beside, reason)
            return
        assert event.instead is not None, "it offers a way"
        self._rescue.given_up(flight.decision, flight.encoded)
        way = Split(cut=event.instead.cut, codec=event.instead.codec)
        decision = Decision(placement=way, reason=Reason.ADVISED, decided_at=now)
        self._sender.send(flight.frame, decision, way)

    def _failed(self, event: Failed) -> None:
        if event.id in self._flights:
            self._notices.tell(event.code, "the edge failed a request", error=event.message)
        self._fall_back(event.id, f"the edge failed it: {event.message}", fault=True)

    def _fall_back(self, request_id: int, reason: str, *, fault: bool = False) -> None:
        flight = self._flights.end(request_id)
        if flight is None:
            return
        beside = self._hedges.end(request_id)
        if self._edge.ready:
            self._landing.unanswered(flight, beside, reason, fault=fault)
        else:
            self._landing.out_of_contact(flight, beside, reason)

    def _lose_edge(self, event: Disconnected) -> None:
        tell = log.error if event.final else log.warning
        tell("edge lost", extra=fields(reason=event.reason, final=event.final))
        if event.final:
            self._patient_until = self._clock.now()
        self.give_up_edge(f"the connection broke: {event.reason}")

    def _leave_unseen(self, item: Unreadable | Dropped, outcome: Outcome, reason: str) -> None:
        record = FrameRecord(index=item.index, origin=item.origin, outcome=outcome, reason=reason)
        self._checkout.leave(record, None)
