"""What nodes' messages mean, sans-IO.

    Arrival --> receive --> lines to write, requests for the edge, messages to send
    answers of the edge --> answered, failed, retried
    on_timer             --> silent sessions are forgotten, requests are tried again

Who a message is from is known before it comes here: a link proved it, or for links without
security the route on which that name said hello. The shell writes `lines` before it sends what
`to_send` gives, so that nothing is acknowledged that could still be lost.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headtail_edge.gateway import messages
from headtail_edge.gateway.config import QuotaConfig
from headtail_edge.gateway.messages import (
    Bye,
    Decision,
    Features,
    Hello,
    NodeMessage,
    NodeMessageError,
    Note,
    Record,
    Status,
    Telemetry,
    Want,
)
from headtail_edge.gateway.metrics import Dropped, GatewayMetrics
from headtail_edge.gateway.models import Model, Models
from headtail_edge.gateway.node_book import Roster
from headtail_edge.gateway.records import Line, telemetry_values
from headtail_edge.gateway.session import Session, Told
from headtail_edge.gateway.traffic import Arrival, Departure, Inquiry, Route
from headtail_edge.rate_limit import Rate, RateLimits

_PIECE_BYTES: Final = 1024
_RETRY_S: Final = 1.0
_LIVE_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Waiting:
    node: str
    log: int
    record: Record
    arrived_at_s: float
    model: Model
    inquiry: Inquiry


class GatewayCore:
    """`wall` times are seconds since 1970, for nodes and lines; `now` is a monotonic clock's."""

    def __init__(
        self,
        *,
        roster: Roster,
        models: Models,
        quota: QuotaConfig,
        silent_s: float,
        metrics: GatewayMetrics,
    ) -> None:
        self._roster = roster
        self._models = models
        self._rate = Rate(per_s=quota.messages_per_s, burst=quota.burst)
        self._in_flight = quota.in_flight
        self._silent_s = silent_s
        self._metrics = metrics
        self._limits = RateLimits()
        self._sessions: dict[str, Session] = {}
        self._routes: dict[str, Route] = {}
        self._named: dict[Route, str] = {}
        self._waiting: dict[int, _Waiting] = {}
        self._ready: deque[int] = deque()
        self._again: deque[tuple[float, int]] = deque()
        self._tickets = 0
        self._lines: list[Line] = []
        self._outbox: list[Departure] = []

    def __repr__(self) -> str:
        return f"<GatewayCore {len(self._sessions)} sessions, {len(self._waiting)} waiting>"

    @property
    def sessions(self) -> int:
        """Nodes that were heard lately."""
        return len(self._sessions)

    @property
    def waiting(self) -> int:
        """Records that wait for the edge."""
        return len(self._waiting)

    def follow(self, roster: Roster) -> None:
        """The list of nodes has changed: who is no longer on it is forgotten."""
        self._roster = roster
        for node in [node for node in self._sessions if node not in roster]:
            self._forget(node)

    def receive(self, arrival: Arrival, now: float, wall: float) -> None:
        """Take one message; whatever is wrong with it costs its sender alone."""
        try:
            message = messages.decode(arrival.data)
        except NodeMessageError:
            self._metrics.dropped(Dropped.MALFORMED)
            return
        node = self._sender(arrival, message, now)
        if node is None:
            return
        if self._limits.take(node, self._rate, now) > 0:
            self._metrics.dropped(Dropped.QUOTA)
            return
        self._routes[node] = arrival.route
        if isinstance(message, Hello):
            self._greeted(node, message, now, wall)
            return
        session = self._sessions.get(node)
        if session is None or session.hello.boot != message.boot:
            self._metrics.dropped(Dropped.STRANGER)
            self._send(node, messages.stranger(message.boot))
            return
        session.heard_at, session.silent_until = now, 0.0
        match message:
            case Record():
                self._recorded(node, session, message, wall)
            case Want():
                self._wanted(node, session, message)
            case Bye():
                session.silent_until = now + message.silence_s

    def inquiries(self, free: int) -> list[Inquiry]:
        """What the edge is to be asked now, at most `free`."""
        taken = [self._ready.popleft() for _ in range(min(free, len(self._ready)))]
        # A ticket whose node was forgotten meanwhile needs no answer.
        return [self._waiting[ticket].inquiry for ticket in taken if ticket in self._waiting]

    def answered(self, ticket: int, answer: int, score: float) -> None:
        """The tail's class, and its probability."""
        waiting = self._waiting.pop(ticket, None)
        if waiting is not None:
            values = {
                "model": waiting.model.name,
                "where": "edge",
                "label": waiting.model.label(answer),
                "score": round(score, 4),
            }
            self._finish(waiting, "answer", values, Status.ANSWERED, answer, score)

    def failed(self, ticket: int, reason: str) -> None:
        """The edge will never answer these features."""
        waiting = self._waiting.pop(ticket, None)
        if waiting is not None:
            values = {"model": waiting.model.name, "reason": reason}
            self._finish(waiting, "failed", values, Status.FAILED, 0, 0.0)

    def retried(self, ticket: int, now: float, after_s: float = _RETRY_S) -> None:
        """The edge could not answer for now: ask again later."""
        if ticket in self._waiting:
            self._again.append((now + max(after_s, _RETRY_S), ticket))

    def next_timer(self) -> float | None:
        """When `on_timer` has something to do."""
        return min((at for at, _ in self._again), default=None)

    def on_timer(self, now: float) -> None:
        """Try again what is due; forget who was silent for too long."""
        due = [ticket for at, ticket in self._again if at <= now]
        self._again = deque((at, ticket) for at, ticket in self._again if at > now)
        self._ready.extend(due)
        for node, session in list(self._sessions.items()):
            if now - max(session.heard_at, session.silent_until) > self._silent_s:
                self._forget(node)
        self._metrics.load(sessions=self.sessions, waiting=self.waiting)

    def lines(self) -> list[Line]:
        """To be written down, before anything of `to_send` leaves."""
        lines, self._lines = self._lines, []
        return lines

    def to_send(self) -> list[Departure]:
        """Messages for nodes, in order."""
        outbox, self._outbox = self._outbox, []
        return outbox

    def _sender(self, arrival: Arrival, message: NodeMessage, now: float) -> str | None:
        """Who sent it, or None where it goes no further."""
        node = arrival.node
        if isinstance(message, Hello):
            if node is not None and message.name != node:
                self._turn_away(arrival, node, message, "it is not the one it says")
                return None
            if node is None:
                if not self._roster.is_open(message.name):
                    self._turn_away(arrival, message.name, message, "it has to prove itself")
                    return None
                if self._is_live_elsewhere(message.name, arrival.route, now):
                    self._turn_away(arrival, message.name, message, "it is here already")
                    return None
                node = message.name
                self._named.pop(self._routes.get(node, arrival.route), None)
                self._named[arrival.route] = node
        elif node is None:
            node = self._named.get(arrival.route)
        if node is None or node not in self._roster:
            self._metrics.dropped(Dropped.UNKNOWN)
            return None
        return node

    def _turn_away(self, arrival: Arrival, node: str, hello: Hello, reason: str) -> None:
        self._metrics.dropped(Dropped.IMPOSTOR)
        data = messages.refused(hello.boot, reason)
        self._outbox.append(Departure(route=arrival.route, node=node, data=data))

    def _is_live_elsewhere(self, node: str, route: Route, now: float) -> bool:
        """Whether somebody else has that name where nobody proves anything."""
        session, known = self._sessions.get(node), self._routes.get(node)
        return (
            session is not None
            and known is not None
            and known != route
            and now - session.heard_at < _LIVE_S
            and session.listens
        )

    def _greeted(self, node: str, hello: Hello, now: float, wall: float) -> None:
        session = self._sessions.get(node)
        if session is None:
            session = self._sessions[node] = Session.opened(hello, now)
        else:
            if hello.log != session.hello.log:
                self._drop_waiting(node)
            session.resumed(hello)
            session.heard_at, session.silent_until = now, 0.0
        self._send(node, messages.welcome(hello.boot, wall))
        for told in session.unheard():
            self._tell(node, session, told)
        self._send(node, messages.ack(hello.boot, session.floor))
        model = self._models.of(hello.head)
        update = model.update if model is not None else None
        if update is not None and update.release > hello.release and update.head != hello.head:
            self._send(node, messages.offer(hello.boot, update.release, len(update.data)))

    def _recorded(self, node: str, session: Session, record: Record, wall: float) -> None:
        if session.is_new(record):
            try:
                payload = messages.decode_payload(record.payload)
            except NodeMessageError as error:
                # It would come again for ever.
                self._metrics.dropped(Dropped.MALFORMED)
                self._settle(node, session, record, wall, "malformed", {"reason": error.message})
            else:
                self._taken(node, session, record, payload, wall)
        # Also for what came before, or waits: the node then knows that somebody is there.
        self._send(node, messages.ack(record.boot, session.floor))

    def _taken(
        self, node: str, session: Session, record: Record, payload: messages.Payload, wall: float
    ) -> None:
        match payload:
            case Features():
                self._ask(node, session, record, payload, wall)
            case Decision():
                model = self._models.of(payload.head)
                values = {
                    "model": model.name if model is not None else "",
                    "where": "board",
                    "label": model.label(payload.answer) if model else str(payload.answer),
                    "score": round(payload.score, 4),
                }
                self._settle(node, session, record, wall, "answer", values)
            case Telemetry():
                self._settle(node, session, record, wall, "telemetry", telemetry_values(payload))
            case Note():
                self._settle(node, session, record, wall, "note", {"text": payload.text})

    def _ask(
        self, node: str, session: Session, record: Record, features: Features, wall: float
    ) -> None:
        model = self._models.of(features.head)
        crossing = model.crossing if model is not None else None
        if model is None or crossing is None or len(features.levels) != crossing.payload_bytes:
            reason = (
                f"no model here has head {features.head:08x}"
                if crossing is None
                else f"{len(features.levels)} bytes of features, not {crossing.payload_bytes}"
            )
            self._settle(node, session, record, wall, "failed", {"reason": reason})
            self._deliver(
                node,
                session,
                Told(sequence=record.sequence, status=Status.FAILED, answer=0, score=0.0),
            )
            return
        if len(session.pending) >= self._in_flight:
            self._metrics.dropped(Dropped.QUOTA)
            return
        session.wait_for(record)
        self._tickets += 1
        self._waiting[self._tickets] = _Waiting(
            node=node,
            log=session.hello.log,
            record=record,
            arrived_at_s=wall,
            model=model,
            inquiry=Inquiry(ticket=self._tickets, crossing=crossing, payload=features.levels),
        )
        self._ready.append(self._tickets)

    def _finish(
        self,
        waiting: _Waiting,
        kind: str,
        values: Mapping[str, object],
        status: Status,
        answer: int,
        score: float,
    ) -> None:
        session = self._sessions.get(waiting.node)
        if session is None or session.hello.log != waiting.log:
            return
        record = waiting.record
        self._settle(waiting.node, session, record, waiting.arrived_at_s, kind, values)
        told = Told(sequence=record.sequence, status=status, answer=answer, score=score)
        self._deliver(waiting.node, session, told)
        if session.listens:
            self._send(waiting.node, messages.ack(session.hello.boot, session.floor))

    def _deliver(self, node: str, session: Session, told: Told) -> None:
        """Before the record is acknowledged: whoever has not heard this asks for that again."""
        if session.keep(told):
            self._metrics.answer_forgotten()
        if session.listens:
            self._tell(node, session, told)

    def _tell(self, node: str, session: Session, told: Told) -> None:
        data = messages.answer(
            session.hello.boot, told.sequence, told.status, told.answer, told.score
        )
        self._send(node, data)

    def _settle(
        self,
        node: str,
        session: Session,
        record: Record,
        arrived_s: float,
        kind: str,
        values: Mapping[str, object],
    ) -> None:
        session.settle(record.sequence, record.previous)
        self._metrics.settled(kind)
        self._lines.append(
            Line(
                node=node,
                log=session.hello.log,
                sequence=record.sequence,
                time_s=record.time_s or arrived_s,
                kind=kind,
                values=values,
            )
        )

    def _wanted(self, node: str, session: Session, want: Want) -> None:
        model = self._models.of(session.hello.head)
        update = model.update if model is not None else None
        if update is None or update.release != want.release or want.offset >= len(update.data):
            return
        data = update.data[want.offset : want.offset + _PIECE_BYTES]
        self._metrics.update_sent(len(data))
        self._send(node, messages.piece(want.boot, want.release, want.offset, data))

    def _forget(self, node: str) -> None:
        self._sessions.pop(node, None)
        route = self._routes.pop(node, None)
        if route is not None:
            self._named.pop(route, None)
        self._drop_waiting(node)

    def _drop_waiting(self, node: str) -> None:
        for ticket in [t for t, waiting in self._waiting.items() if waiting.node == node]:
            del self._waiting[ticket]

    def _send(self, node: str, data: bytes) -> None:
        self._outbox.append(Departure(route=self._routes[node], node=node, data=data))
