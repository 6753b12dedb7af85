"""An edge's port that tells what became of the requests that are traced.

    request arrives with a traceparent        wire (the device's span)
    the answer leaves                           |- queue
                                                |- tail: decode, compute
                                                `- answer

The times are those that the answer carries, so nothing else has to know of tracing.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from headtail_fabric.clock import Clock
from headtail_fabric.peer.events import (
    Alternative,
    RequestArrived,
    RequestCancelled,
    ServerEvent,
)
from headtail_fabric.peer.ports import Offered, ServerPort, TrafficCount, to_everyone
from headtail_fabric.tracing.context import BadTraceError, TraceContext
from headtail_fabric.tracing.span import Attribute, Span, SpanSink
from headtail_fabric.wire import (
    ErrorCode,
    Frames,
    Hints,
    TensorInfo,
    Timings,
    TracedRequest,
)

_MOST: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Traced:
    parent: TraceContext
    arrived_at: float
    attributes: dict[str, Attribute]


class RequestTraces:
    """The traced requests that are being worked on, and their spans. Safe from any thread."""

    def __init__(self, sink: SpanSink, *, clock: Clock, random: Callable[[int], bytes]) -> None:
        self._sink = sink
        self._clock = clock
        self._random = random
        self._open: OrderedDict[tuple[bytes, int], _Traced] = OrderedDict()
        self._lock = threading.Lock()

    def arrived(self, event: RequestArrived) -> None:
        """A request came; if it carries a traceparent, it is followed."""
        request = event.request
        if not isinstance(request, TracedRequest):
            return
        try:
            parent = TraceContext.parse(request.trace)
        except BadTraceError:
            return
        if parent is None:
            return
        attributes: dict[str, Attribute] = {
            "headtail.bundle": request.bundle.hex()[:12],
            "headtail.cut": request.cut,
            "headtail.attempt": request.attempt,
        }
        if event.user:
            attributes["headtail.device"] = event.user
        traced = _Traced(parent=parent, arrived_at=event.arrived_at, attributes=attributes)
        with self._lock:
            self._open[event.session, request.id] = traced
            while len(self._open) > _MOST:
                self._open.popitem(last=False)

    def answered(self, session: bytes, request_id: int, timings: Timings, batch: int) -> None:
        """The answer leaves now."""
        traced = self._taken(session, request_id)
        if traced is None:
            return
        at = traced.arrived_at
        self._tell("queue", traced, traced.parent, at, at + timings.queue_us / 1e6)
        at += timings.queue_us / 1e6
        tail_ends = at + (timings.decode_us + timings.compute_us) / 1e6
        more: dict[str, Attribute] = {"headtail.batch": batch}
        tail = self._tell("tail", traced, traced.parent, at, tail_ends, more)
        decoded_at = at + timings.decode_us / 1e6
        self._tell("decode", traced, tail, at, decoded_at)
        self._tell("compute", traced, tail, decoded_at, tail_ends)
        self._tell("answer", traced, traced.parent, tail_ends, self._clock.now())

    def ended(self, session: bytes, request_id: int, why: str) -> None:
        """It has no answer."""
        traced = self._taken(session, request_id)
        if traced is not None:
            now = self._clock.now()
            self._tell("queue", traced, traced.parent, traced.arrived_at, now, failed=why)

    def _taken(self, session: bytes, request_id: int) -> _Traced | None:
        with self._lock:
            return self._open.pop((session, request_id), None)

    def _tell(
        self,
        name: str,
        traced: _Traced,
        parent: TraceContext,
        begin_s: float,
        end_s: float,
        more: dict[str, Attribute] | None = None,
        failed: str = "",
    ) -> TraceContext:
        context = parent.child(self._random)
        span = Span(
            name=name,
            context=context,
            parent=parent,
            begin_s=begin_s,
            end_s=end_s,
            attributes={**traced.attributes, **(more or {})},
            failed=failed,
        )
        self._sink.tell(span)
        return context


class TracedServerPort:
    """A `ServerPort` that lets `traces` see what passes."""

    def __init__(self, port: ServerPort, traces: RequestTraces) -> None:
        self._port = port
        self._traces = traces

    @property
    def endpoint(self) -> str:
        return self._port.endpoint

    def poll(self, timeout_s: float) -> ServerEvent | None:
        event = self._port.poll(timeout_s)
        if isinstance(event, RequestArrived):
            self._traces.arrived(event)
        elif isinstance(event, RequestCancelled):
            self._traces.ended(event.session, event.id, "cancelled, or past its deadline")
        return event

    def respond(
        self,
        session: bytes,
        request_id: int,
        *,
        tensors: Sequence[TensorInfo],
        payloads: Frames,
        timings: Timings,
        hints: Hints,
    ) -> None:
        self._port.respond(
            session,
            request_id,
            tensors=tensors,
            payloads=payloads,
            timings=timings,
            hints=hints,
        )
        self._traces.answered(session, request_id, timings, hints.batch)

    def busy(
        self,
        session: bytes,
        request_id: int,
        *,
        retry_after_s: float,
        hints: Hints,
        instead: Alternative | None = None,
    ) -> None:
        self._port.busy(
            session, request_id, retry_after_s=retry_after_s, hints=hints, instead=instead
        )
        self._traces.ended(session, request_id, "busy")

    def advertise(self, hints: Hints) -> None:
        self._port.advertise(hints)

    def fail(self, session: bytes, request_id: int, code: ErrorCode, message: str) -> None:
        self._port.fail(session, request_id, code, message)
        self._traces.ended(session, request_id, code.name.lower())

    def need_bundle(self, session: bytes, digest: bytes, offset: int) -> None:
        self._port.need_bundle(session, digest, offset)

    def refuse_bundle(self, session: bytes, digest: bytes, reason: str) -> None:
        self._port.refuse_bundle(session, digest, reason)

    def serve_bundles(self, digests: Sequence[bytes], offered: Offered = to_everyone) -> None:
        self._port.serve_bundles(digests, offered)

    def drop_session(self, session: bytes, reason: str) -> None:
        self._port.drop_session(session, reason)

    def traffic(self) -> TrafficCount:
        return self._port.traffic()

    def close(self, timeout_s: float = 1.0) -> None:
        self._port.close(timeout_s)
