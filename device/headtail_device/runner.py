"""The device's decisions, frame by frame: a core without threads, sockets or files.

    frame -> placed -> head -> submitted -> answered                              EDGE
                   |             `-> the edge fails it, dies, is too slow -> owed
                   `-> no edge ---------------------------------------------> owed -> whole model
                                                                              DEGRADED

What the edge does not answer is *owed*: the picture is kept until it has its outcome, and the whole
model answers it here (`Fallback`), one at a time, so that events are heard in between.
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
from headtail_device.head import Encoded, Head
from headtail_device.ledger import Latency, Outcome
from headtail_device.notices import Notices
from headtail_device.placement import Local, Observation, Policy, Remote
from headtail_device.record import FrameRecord
from headtail_device.source.frame import Dropped, Frame, Item, Unreadable
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

_ANSWERED_HERE: Final = (
    "the edge can't be used, frames are answered here until it can: check that it runs and serves "
    "the bundle, and that its address and keys are right"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerSettings:
    """`late`: see `Fallback`. `max_in_flight` bounds what is asked of the edge at once, besides the
    edge's own window; `patience_s` is how long the first frame waits for the edge before it is
    computed here."""

    late: Late
    max_in_flight: int
    patience_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _InFlight:
    frame: Frame
    way: Remote
    encoded: Encoded


class Runner:
    """Feed it with `on_item` while `wants_frame`, and with every event; call `work` while
    `has_work`. `now` is the clock's: computing takes time, so it is read, not passed.

    `packed` gives the packed bundle, for an edge that lacks it; None forbids to push it.
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
    ) -> None:
        self._port = port
        self._head = head
        self._policy = policy
        self._checkout = checkout
        self._clock = clock
        self._settings = settings
        self._packed = packed
        self._notices = Notices()
        self._fallback = Fallback(
            head=head, checkout=checkout, clock=clock, late=settings.late, notices=self._notices
        )
        self._edge = EdgeState(head.digest)
        self._hints: Hints | None = None
        self._in_flight: dict[int, _InFlight] = {}
        self._patient_until = clock.now() + settings.patience_s
        self._pushed_bytes = 0

    def __repr__(self) -> str:
        return (
            f"<Runner {self._edge!r} in_flight={len(self._in_flight)} owed={len(self._fallback)}>"
        )

    @property
    def edge(self) -> EdgeState:
        return self._edge

    @property
    def pushed_bytes(self) -> int:
        """Size of the packed bundles given to the edge."""
        return self._pushed_bytes

    @property
    def in_flight(self) -> int:
        """Requests at the edge."""
        return len(self._in_flight)

    @property
    def has_work(self) -> bool:
        """Whether `work` has something to do."""
        return len(self._fallback) > 0

    @property
    def idle(self) -> bool:
        """Whether every accepted frame has its outcome."""
        return not self._in_flight and not self.has_work

    @property
    def wants_frame(self) -> bool:
        """Whether a frame could be handled now, at the edge or here."""
        if self.has_work or len(self._in_flight) >= self._settings.max_in_flight:
            return False
        if self._edge.ready:
            return self._port.free_window() > 0
        return self._clock.now() >= self._patient_until

    @property
    def patience_left_s(self) -> float:
        """For how long no frame is wanted unless the edge becomes ready first."""
        return max(0.0, self._patient_until - self._clock.now())

    def on_item(self, item: Item) -> None:
        """Accept what the source gave."""
        self._checkout.accept(item.index)
        match item:
            case Frame():
                self._place(item)
            case Unreadable():
                self._leave_unseen(item, Outcome.UNREADABLE, item.reason)
            case Dropped():
                self._leave_unseen(item, Outcome.DROPPED, "a newer frame came first")
            case _:
                assert_never(item)

    def on_event(self, event: ClientEvent) -> None:
        """Follow what the port tells."""
        self._edge.on_event(event)
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
                self._push(event.digest)
            case BundleAccepted():
                log.info("edge serves the bundle", extra=fields(digest=event.digest))
            case BundleDeclined():
                log.error("edge takes no bundle from here", extra=fields(reason=event.reason))
            case _:
                assert_never(event)

    def work(self) -> None:
        """Answer one owed frame."""
        self._fallback.pay()

    def give_up_edge(self, reason: str) -> None:
        """Wait for no answer any more: everything in flight is owed."""
        for request_id in list(self._in_flight):
            self._port.cancel(request_id)
            self._fall_back(request_id, reason)

    def _place(self, frame: Frame) -> None:
        now = self._clock.now()
        seen = Observation(
            edge_ready=self._edge.ready,
            free_window=self._port.free_window(),
            in_flight=len(self._in_flight),
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
                self._notices.tell("degraded", _ANSWERED_HERE, edge=repr(self._edge))
            self._owe(frame, _why_not(seen))
        else:
            self._fallback.owe(frame, Outcome.LOCAL, "")

    def _send(self, frame: Frame, way: Remote) -> None:
        try:
            encoded = self._head.encode(frame.data, way)
        except (HeadtailError, ValueError) as error:
            self._notices.tell(type(error), "the head failed", error=error)
            self._owe(frame, f"the head failed: {error}")
            return
        remaining_s = frame.deadline_at - self._clock.now()
        if remaining_s <= 0:
            self._owe(frame, "the head took too long", spent_s=encoded.head_s)
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
            self._owe(frame, "the connection broke", spent_s=encoded.head_s)
            return
        except WireError as error:
            self._notices.tell(type(error), "a frame can't be sent", error=error)
            self._owe(frame, f"it can't be sent: {error}", spent_s=encoded.head_s)
            return
        self._in_flight[request_id] = _InFlight(frame=frame, way=way, encoded=encoded)

    def _answered(self, event: Answered) -> None:
        flight = self._in_flight.pop(event.id, None)
        if flight is None:
            return
        self._hints = event.hints
        frame, encoded = flight.frame, flight.encoded
        try:
            answer = self._head.decode(event.tensors, event.payloads, encoded.geometry)
        except PeerError as error:
            self._notices.tell(type(error), "the edge's answer makes no sense", error=error)
            self._owe(frame, f"the edge's answer: {error}", spent_s=encoded.head_s)
            return
        timings = event.timings
        latency = Latency(
            head_s=encoded.head_s,
            wire_s=event.wire_s,
            queue_s=timings.queue_us / 1e6,
            tail_s=(timings.decode_us + timings.compute_us + timings.post_us) / 1e6,
            total_s=self._clock.now() - frame.captured_at,
        )
        record = FrameRecord(
            index=frame.index,
            origin=frame.origin,
            outcome=Outcome.EDGE,
            captured_at=frame.captured_at,
            cut=flight.way.cut,
            codec=flight.way.codec,
            attempts=event.attempts,
            latency=latency,
            bytes_up=event.bytes_up,
            bytes_down=event.bytes_down,
            payload_bytes=encoded.payload_bytes,
            answer=answer,
        )
        self._checkout.leave(record, frame.data)

    def _failed(self, event: Failed) -> None:
        self._edge.on_failure(event.code)
        if event.id in self._in_flight:
            self._notices.tell(event.code, "the edge failed a request", error=event.message)
        self._fall_back(event.id, f"the edge failed it: {event.message}")

    def _fall_back(self, request_id: int, reason: str) -> None:
        flight = self._in_flight.pop(request_id, None)
        if flight is not None:
            self._owe(flight.frame, reason, spent_s=flight.encoded.head_s)

    def _owe(self, frame: Frame, reason: str, *, spent_s: float = 0.0) -> None:
        self._fallback.owe(frame, Outcome.DEGRADED, reason, spent_s=spent_s)

    def _lose_edge(self, event: Disconnected) -> None:
        tell = log.error if event.final else log.warning
        tell("edge lost", extra=fields(reason=event.reason, final=event.final))
        if event.final:
            self._patient_until = self._clock.now()
        self.give_up_edge(f"the connection broke: {event.reason}")

    def _push(self, digest: bytes) -> None:
        if digest != self._head.digest or self._packed is None:
            self._notices.tell(
                digest,
                "the edge lacks the bundle: install the same bundle there, or let this device push "
                "it (edge.push_bundles)",
                digest=digest,
            )
            return
        try:
            packed = self._packed()
        except HeadtailError as error:
            self._notices.tell(digest, "the bundle can't be packed for the edge", error=error)
            return
        log.info("pushing the bundle", extra=fields(digest=digest, size_bytes=len(packed)))
        self._port.push_bundle(digest, packed)
        self._pushed_bytes += len(packed)

    def _leave_unseen(self, item: Unreadable | Dropped, outcome: Outcome, reason: str) -> None:
        record = FrameRecord(index=item.index, origin=item.origin, outcome=outcome, reason=reason)
        self._checkout.leave(record, None)


def _why_not(seen: Observation) -> str:
    """Why a frame did not go to the edge."""
    if not seen.edge_ready:
        return "the edge can't be used now"
    if seen.remaining_s <= 0:
        return "its deadline passed before its turn"
    return "the edge was too busy"
