"""A client's requests in flight: when each is to be sent, sent again, or given up.

Every request put in comes out in exactly one event, or is cancelled. The table knows nothing of
connections: the core around it asks for what is due while it has one.
"""

from collections import deque
from collections.abc import Callable

import msgspec

from headtail_fabric import wire
from headtail_fabric.link import LinkEstimator
from headtail_fabric.peer.events import (
    Alternative,
    Answered,
    ClientEvent,
    Expired,
    Failed,
    Refused,
)
from headtail_fabric.peer.geometry import framed_bytes
from headtail_fabric.seal import Sealer
from headtail_fabric.wire import Buffer, ErrorCode, Frames, TensorInfo


class _Pending(msgspec.Struct, kw_only=True):
    bundle: bytes
    cut: str
    tensors: tuple[TensorInfo, ...]
    payloads: Frames
    deadline_at: float
    trace: str = ""
    attempt: int = 0
    sent_at: float = 0.0
    size_bytes: int = 0
    send_at: float | None = None
    """When to send it (again); None while it waits in the queue."""
    instead: Alternative | None = None
    """What the server offered before it refuses this transmission."""


class RequestTable:
    """Requests by id; `random` gives numbers in [0, 1) for the jitter of back-offs.

    With a `sealer` each transmission is sealed anew, and only sealed answers count.
    """

    def __init__(
        self,
        *,
        link: LinkEstimator,
        curve: bool,
        random: Callable[[], float],
        sealer: Sealer | None = None,
    ) -> None:
        self._link = link
        self._curve = curve
        self._random = random
        self._sealer = sealer
        self._pending: dict[int, _Pending] = {}
        self._queue: deque[int] = deque()
        self._next_id = 1
        self._resident_s = 0.0
        self.retries = 0
        self.late_answers = 0

    def __len__(self) -> int:
        return len(self._pending)

    def __repr__(self) -> str:
        return (
            f"RequestTable(in_flight={len(self)}, retries={self.retries}, late={self.late_answers})"
        )

    def add(
        self,
        *,
        bundle: bytes,
        cut: str,
        tensors: tuple[TensorInfo, ...],
        payloads: Frames,
        deadline_at: float,
        trace: str = "",
    ) -> int:
        """Queue a new request; returns its id. Raises what `wire.check_tensors` raises."""
        pending = _Pending(
            bundle=bundle,
            cut=cut,
            tensors=tensors,
            payloads=payloads,
            deadline_at=deadline_at,
            # A relay between must not be helped to follow what is sealed.
            trace="" if self._sealer is not None else trace,
        )
        wire.check_tensors(tensors, payloads)
        if self._sealer is not None:
            self._sealer.check(tensors, payloads)
        request_id, self._next_id = self._next_id, self._next_id + 1
        self._pending[request_id] = pending
        self._queue.append(request_id)
        return request_id

    def remove(self, request_id: int) -> bool:
        """Forget a request; True when the server may have it."""
        pending = self._pending.pop(request_id, None)
        return pending is not None and pending.attempt > 0

    def requeue_all(self) -> None:
        """A new session: the server may know none of them."""
        for pending in self._pending.values():
            pending.send_at = None
        self._queue = deque(self._pending)

    def to_send(self, now: float) -> list[list[Buffer]]:
        """Frames of what is due; only to be called while there is a session."""
        due = []
        while self._queue:
            request_id = self._queue.popleft()
            pending = self._pending.get(request_id)
            if pending is not None:
                due.append(self._transmit(request_id, pending, now))
        return due

    def next_timer(self) -> float | None:
        times = [pending.deadline_at for pending in self._pending.values()]
        times += [p.send_at for p in self._pending.values() if p.send_at is not None]
        return min(times, default=None)

    def on_timer(self, now: float) -> list[tuple[Expired, bool]]:
        """Queue what is to be sent again; returns what has expired and whether it was sent."""
        expired = []
        for request_id, pending in list(self._pending.items()):
            if now >= pending.deadline_at:
                expired.append((Expired(id=request_id), self.remove(request_id)))
            elif pending.send_at is not None and now >= pending.send_at:
                pending.send_at = None
                self._queue.append(request_id)
        return expired

    def answered(
        self, result: wire.Result, payloads: Frames, size_bytes: int, now: float
    ) -> ClientEvent | None:
        """A result of `size_bytes`, framing included, came; None when nobody waits for it. Raises
        SealError for one that is not what was sealed for this request, which still waits."""
        if result.id not in self._pending:
            self.late_answers += 1
            return None
        tensors = result.tensors
        if self._sealer is not None:
            tensors, payloads = self._sealer.open(tensors, payloads, id=result.id)
        pending = self._pending.pop(result.id)
        self._resident_s = result.timings.resident_us / 1e6
        if pending.attempt == 1:
            self._link.request_answered(
                size_bytes=pending.size_bytes,
                sent_at=pending.sent_at,
                received_at=now,
                resident_s=self._resident_s,
            )
        return Answered(
            id=result.id,
            tensors=tensors,
            payloads=payloads,
            timings=result.timings,
            hints=result.hints,
            sent_at=pending.sent_at,
            received_at=now,
            attempts=pending.attempt,
            bytes_up=pending.size_bytes,
            bytes_down=size_bytes,
        )

    def advised(self, advice: wire.Advice) -> None:
        """The server is about to refuse a request, and knows a better way for its frame."""
        pending = self._pending.get(advice.id)
        if pending is not None:
            pending.instead = Alternative(cut=advice.cut, codec=advice.codec)

    def busy(self, busy: wire.Busy, now: float) -> ClientEvent | None:
        """The server is busy: try again if the deadline allows and nothing better was offered,
        else the request is refused."""
        pending = self._pending.get(busy.id)
        if pending is None:
            return None
        wait_s = busy.retry_after_ms / 1000 * (1 + self._random() / 2)
        rtt_s = self._link.estimate(now).rtt_s or 0.0
        in_time = now + wait_s + rtt_s + self._resident_s < pending.deadline_at
        if in_time and pending.instead is None:
            pending.send_at = now + wait_s
            return None
        del self._pending[busy.id]
        return Refused(
            id=busy.id,
            retry_after_s=busy.retry_after_ms / 1000,
            hints=busy.hints,
            instead=pending.instead,
        )

    def failed(self, reply: wire.ErrorReply) -> ClientEvent | None:
        """The server refused one request for good."""
        if self._pending.pop(reply.id, None) is None:
            return None
        return Failed(id=reply.id, code=reply.code, message=reply.message)

    def fail_all(self, code: ErrorCode, message: str) -> list[Failed]:
        """The connection is over for good."""
        failed = [Failed(id=i, code=code, message=message) for i in self._pending]
        self._pending.clear()
        return failed

    def _message(
        self, request_id: int, pending: _Pending, now: float
    ) -> tuple[wire.Request, Frames]:
        tensors, payloads = pending.tensors, pending.payloads
        if self._sealer is not None:
            tensor, envelope = self._sealer.seal(
                tensors, payloads, id=request_id, bundle=pending.bundle, cut=pending.cut
            )
            tensors, payloads = (tensor,), (envelope,)
        remaining_ms = int((pending.deadline_at - now) * 1000)
        request = wire.Request(
            id=request_id,
            bundle=pending.bundle,
            cut=pending.cut,
            remaining_ms=min(max(0, remaining_ms), 86_400_000),
            attempt=min(max(pending.attempt, 1), 255),
            tensors=tensors,
        )
        if pending.trace:
            fields = msgspec.structs.asdict(request)
            request = wire.TracedRequest(**fields, trace=pending.trace)
        return request, payloads

    def _transmit(self, request_id: int, pending: _Pending, now: float) -> list[Buffer]:
        pending.attempt += 1
        pending.instead = None
        message, payloads = self._message(request_id, pending, now)
        frames = wire.encode_checked(message, payloads)
        pending.sent_at = now
        pending.size_bytes = framed_bytes(frames, curve=self._curve)
        wait_s = self._link.retry_after_s(pending.attempt, self._resident_s)
        pending.send_at = now + wait_s * (1 + self._random() / 2)
        self._link.request_sent(again=pending.attempt > 1)
        self.retries += pending.attempt > 1
        return frames
