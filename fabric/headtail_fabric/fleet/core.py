"""Requests over several edges, sans-IO: one id and one end for each, wherever it is answered.

A request goes to the edge that is chosen when it is submitted. When that edge is lost, lacks the
bundle, is too busy or breaks down over it, the request goes to another that has not had it, with
what is left of its deadline; where there is none, it ends as that edge ended it. Whoever uses the
core sees one connection: up while any edge can be used.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import msgspec

from headtail_fabric import wire
from headtail_fabric.fleet.chooser import EdgeChooser
from headtail_fabric.link import LinkEstimate
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
from headtail_fabric.wire import Buffer, ErrorCode, Frames, Hints, TensorInfo

_NOT_HERE: Final = frozenset({ErrorCode.UNKNOWN_BUNDLE, ErrorCode.UNKNOWN_CUT})
_NOT_NOW: Final = frozenset(
    {
        ErrorCode.NO_SESSION,
        ErrorCode.NOT_ALLOWED,
        ErrorCode.INTERNAL,
        ErrorCode.SHUTTING_DOWN,
        ErrorCode.BAD_SEAL,
    }
)
"""Failures that are the edge's affair, so that another may do better."""


class Member(ClientPort, Protocol):
    """An edge's port that tells, too, what the edge last said of its load."""

    def hints(self) -> Hints | None: ...


@dataclass(slots=True, kw_only=True)
class _Flight:
    bundle: bytes
    cut: str
    tensors: tuple[TensorInfo, ...]
    payloads: Frames
    deadline_at: float
    trace: str
    edge: int
    inner: int
    tried: frozenset[int] = field(default_factory=frozenset)


class FleetCore:
    """All edges of one device. `members` are replaced by `seat`; None stands for an edge whose
    address is not known yet."""

    def __init__(self, count: int, *, bundle: bytes) -> None:
        self.chooser = EdgeChooser(count)
        self._bundle = bundle
        self._members: list[Member | None] = [None] * count
        self._offers: dict[int, wire.Offer] = {}
        self._final: dict[int, str] = {}
        self._flights: dict[int, _Flight] = {}
        self._by_inner: dict[tuple[int, int], int] = {}
        self._wanted: set[int] = set()
        self._events: deque[ClientEvent] = deque()
        self._active: int | None = None
        self._next_id = 1
        self.moved = 0
        """Requests that went to another edge, so far."""

    def __repr__(self) -> str:
        return f"FleetCore({self.chooser!r}, in_flight={len(self._flights)}, moved={self.moved})"

    @property
    def members(self) -> Sequence[Member | None]:
        return self._members

    @property
    def active(self) -> Member | None:
        """The port of the edge in use."""
        return None if self._active is None else self._members[self._active]

    def seat(self, edge: int, member: Member, now: float) -> Member | None:
        """An edge's port, the first or a new one; returns the one it replaces, to be closed."""
        before = self._members[edge]
        self._members[edge] = member
        self._final.pop(edge, None)
        if before is not None:
            self._lost(edge, now)
            self.settle(now)
        return before

    def submit(
        self,
        *,
        bundle: bytes,
        cut: str,
        tensors: Sequence[TensorInfo],
        payloads: Frames,
        deadline_s: float,
        now: float,
        trace: str = "",
    ) -> int:
        """See `ClientPort.submit`."""
        edge = self._with_room(now)
        member = None if edge is None else self._members[edge]
        if edge is None or member is None:
            raise WindowFullError("no edge has room")
        inner = member.submit(
            bundle=bundle,
            cut=cut,
            tensors=tensors,
            payloads=payloads,
            deadline_s=deadline_s,
            trace=trace,
        )
        request_id, self._next_id = self._next_id, self._next_id + 1
        self._flights[request_id] = _Flight(
            bundle=bundle,
            cut=cut,
            tensors=tuple(tensors),
            payloads=tuple(payloads),
            deadline_at=now + deadline_s,
            trace=trace,
            edge=edge,
            inner=inner,
        )
        self._by_inner[edge, inner] = request_id
        return request_id

    def cancel(self, request_id: int) -> None:
        """See `ClientPort.cancel`."""
        flight = self._flights.pop(request_id, None)
        if flight is not None:
            self._leave(flight)

    def push_bundle(self, digest: bytes, packed: Buffer) -> None:
        """To every edge that asked for it."""
        for edge in self._wanted:
            member = self._members[edge]
            if member is not None:
                member.push_bundle(digest, packed)
        self._wanted.clear()

    def estimate(self) -> LinkEstimate:
        member = self.active
        return LinkEstimate() if member is None else member.estimate()

    def announce_tail(self, *, bundle: bytes, cut: str, due_s: float, now: float) -> None:
        """To the edge that would be asked now."""
        member = self._member_with_room(now)
        if member is not None:
            member.announce_tail(bundle=bundle, cut=cut, due_s=due_s)

    def free_window(self, now: float) -> int:
        """See `ClientPort.free_window`."""
        member = self._member_with_room(now)
        return 0 if member is None else member.free_window()

    def _member_with_room(self, now: float) -> Member | None:
        edge = self._with_room(now)
        return None if edge is None else self._members[edge]

    def _with_room(self, now: float) -> int | None:
        """The edge in use, or another one when that is full, or has just broken."""
        member = self.active
        if self._active is None or (member is not None and member.free_window()):
            return self._active
        return self.chooser.another(frozenset({self._active}), now)

    def next_event(self) -> ClientEvent | None:
        return self._events.popleft() if self._events else None

    def on_event(self, edge: int, event: ClientEvent, now: float) -> None:
        """What the port of `edge` told."""
        match event:
            case Connected():
                self._offers[edge] = event.offer
                self.chooser.connected(edge, serves=self._bundle in event.offer.bundles)
                self._rescue(now)
            case Disconnected():
                if event.final:
                    self._final[edge] = event.reason
                self._lost(edge, now)
            case Answered():
                self.chooser.answered(edge)
                self.chooser.told(edge, event.hints, now)
                self._end(edge, event)
            case Refused():
                self.chooser.told(edge, event.hints, now)
                self.chooser.refused(edge, event.retry_after_s, now)
                self._move_or_end(edge, event, now)
            case Failed():
                self._failed(edge, event, now)
            case Expired():
                self._end(edge, event)
            case BundleWanted():
                self._wanted.add(edge)
                self._events.append(event)
            case BundleAccepted(digest=digest):
                self._has(edge, digest)
            case BundleDeclined():
                if edge == self._active or self._active is None:
                    self._events.append(event)
        self.settle(now)

    def settle(self, now: float) -> None:
        """Look at loads and round trips, and turn to another edge if that is better. To be called
        every now and then."""
        for edge, member in enumerate(self._members):
            if member is not None and edge in self._offers:
                self.chooser.measured(edge, member.estimate().rtt_s)
                hints = member.hints() if edge != self._active else None
                if hints is not None:
                    self.chooser.told(edge, hints, now)
        chosen = self.chooser.choose(now)
        if chosen is None:
            chosen = self._waiting_for_its_bundle()
        if chosen == self._active:
            return
        self._active = chosen
        if chosen is not None:
            self._events.append(Connected(offer=self._offers[chosen], restarted=False))
            return
        final = len(self._final) == len(self._members)
        reason = "; ".join(dict.fromkeys(self._final.values())) if final else "no edge can be used"
        self._events.append(Disconnected(reason=reason, final=final))

    def _waiting_for_its_bundle(self) -> int | None:
        """An edge that is there and lacks the bundle, when no edge has it: it may be pushed."""
        if self._active in self._offers:
            return self._active
        return min(self._offers, default=None)

    def _has(self, edge: int, digest: bytes) -> None:
        if digest == self._bundle:
            self.chooser.serving(edge, serves=True)
        offer = self._offers.get(edge)
        if offer is not None and digest not in offer.bundles:
            bundles = (*offer.bundles, digest)
            self._offers[edge] = msgspec.structs.replace(offer, bundles=bundles)
        if edge == self._active:
            self._events.append(BundleAccepted(digest=digest))

    def _lost(self, edge: int, now: float) -> None:
        self._offers.pop(edge, None)
        self._wanted.discard(edge)
        self.chooser.disconnected(edge)
        self._rescue(now)

    def _rescue(self, now: float) -> None:
        """Requests of edges that are gone go to another; where there is none they wait for their
        edge, or for their deadline."""
        for request_id, flight in list(self._flights.items()):
            if flight.edge not in self._offers:
                self._move(request_id, flight.tried, now)

    def _failed(self, edge: int, event: Failed, now: float) -> None:
        if event.code in _NOT_HERE:
            self.chooser.serving(edge, serves=False)
        elif event.code in _NOT_NOW:
            self.chooser.failed(edge, now)
        if event.code in _NOT_HERE | _NOT_NOW:
            self._move_or_end(edge, event, now)
        else:
            self._end(edge, event)

    def _move_or_end(self, edge: int, event: Refused | Failed, now: float) -> None:
        request_id = self._by_inner.get((edge, event.id))
        if request_id is None:
            return
        tried = self._flights[request_id].tried | {edge}
        if not self._move(request_id, tried, now):
            self._end(edge, event)

    def _move(self, request_id: int, tried: frozenset[int], now: float) -> bool:
        """To an edge with room that is not one of `tried`, if there is one."""
        flight = self._flights[request_id]
        edge = self.chooser.another(tried, now)
        member = None if edge is None else self._members[edge]
        if edge is None or member is None or now >= flight.deadline_at or not member.free_window():
            return False
        self._leave(flight)
        inner = member.submit(
            bundle=flight.bundle,
            cut=flight.cut,
            tensors=flight.tensors,
            payloads=flight.payloads,
            deadline_s=flight.deadline_at - now,
            trace=flight.trace,
        )
        flight.edge, flight.inner, flight.tried = edge, inner, tried
        self._by_inner[edge, inner] = request_id
        self.moved += 1
        return True

    def _end(self, edge: int, event: Answered | Refused | Failed | Expired) -> None:
        request_id = self._by_inner.pop((edge, event.id), None)
        if request_id is not None:
            del self._flights[request_id]
            self._events.append(msgspec.structs.replace(event, id=request_id))

    def _leave(self, flight: _Flight) -> None:
        del self._by_inner[flight.edge, flight.inner]
        member = self._members[flight.edge]
        if member is not None:
            member.cancel(flight.inner)
