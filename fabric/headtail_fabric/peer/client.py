"""The device's end of a connection, sans-IO.

Frames and times go in; frames, events and the next wake-up time come out. A shell tells when the
transport under it is up or down (`link_up`, `link_down`). Every submitted request ends in exactly
one event (Answered, Refused, Failed, Expired) unless it is cancelled.

Requests outlive connections: after a reconnect the ones still in time are sent again under the
same id, and the server's duplicate suppression makes that harmless.
"""

from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final, assert_never

from headtail_fabric import wire
from headtail_fabric.link import LinkEstimate, LinkEstimator
from headtail_fabric.peer.errors import StateError, WindowFullError
from headtail_fabric.peer.events import (
    BundleAccepted,
    BundleDeclined,
    BundleWanted,
    ClientEvent,
    Connected,
    Disconnected,
)
from headtail_fabric.peer.geometry import framed_bytes
from headtail_fabric.peer.push import BundlePush
from headtail_fabric.peer.request_table import RequestTable
from headtail_fabric.seal import Sealer
from headtail_fabric.wire import Buffer, ErrorCode, Frames, TensorInfo


class State(Enum):
    """Where the connection stands."""

    DOWN = "down"
    GREETING = "greeting"
    READY = "ready"
    CLOSED = "closed"


class Turn(Enum):
    """What can change the state."""

    LINK_UP = "link up"
    LINK_DOWN = "link down"
    OFFERED = "offered"
    SILENT = "silent"
    DISMISSED = "dismissed"
    REJECTED = "rejected"
    CLOSED = "closed"


TABLE: Final[dict[State, dict[Turn, State]]] = {
    State.DOWN: {
        Turn.LINK_UP: State.GREETING,
        Turn.LINK_DOWN: State.DOWN,
        Turn.CLOSED: State.CLOSED,
    },
    State.GREETING: {
        Turn.LINK_UP: State.GREETING,
        Turn.LINK_DOWN: State.DOWN,
        Turn.OFFERED: State.READY,
        Turn.DISMISSED: State.GREETING,
        Turn.REJECTED: State.CLOSED,
        Turn.CLOSED: State.CLOSED,
    },
    State.READY: {
        Turn.LINK_UP: State.GREETING,
        Turn.LINK_DOWN: State.DOWN,
        Turn.OFFERED: State.READY,
        Turn.SILENT: State.GREETING,
        Turn.DISMISSED: State.GREETING,
        Turn.REJECTED: State.CLOSED,
        Turn.CLOSED: State.CLOSED,
    },
    State.CLOSED: {},
}

_HELLO_EVERY_S: Final = 0.5
_HELLO_AT_MOST_EVERY_S: Final = 10.0
_SILENT_HEARTBEATS: Final = 3
_WITH_HINTS: Final = (wire.Result, wire.Busy, wire.Pong)


class ClientCore:
    """One client of one server.

    `random` gives numbers in [0, 1) for the jitter of back-offs; `session` is 16 random bytes,
    new for each process. `bundles` are the digests the client will ask for. With a `sealer` what
    requests and answers hold is sealed end to end.
    """

    def __init__(
        self,
        *,
        session: bytes,
        name: str,
        agent: str,
        bundles: Sequence[bytes],
        can_push: bool,
        curve: bool,
        random: Callable[[], float],
        sealer: Sealer | None = None,
    ) -> None:
        self._hello = wire.Hello(
            session=session, name=name, agent=agent, bundles=tuple(bundles), can_push=can_push
        )
        self._curve = curve
        self._random = random
        self._state = State.DOWN
        self._link = LinkEstimator()
        self._requests = RequestTable(link=self._link, curve=curve, random=random, sealer=sealer)
        self._sealer = sealer
        self._pushes: dict[bytes, BundlePush] = {}
        self._outbox: deque[wire.Message] = deque()
        self._events: deque[ClientEvent] = deque()
        self._offer: wire.Offer | None = None
        self._hints: wire.Hints | None = None
        self._down_reason: str | None = None
        self._next_nonce = 1
        self._pings: dict[int, float] = {}
        self._heard_at = 0.0
        self._ping_at: float | None = None
        self._hello_at: float | None = None
        self._hellos = 0

    def __repr__(self) -> str:
        return f"ClientCore({self._state.value}, window={self._window}, {self._requests!r})"

    @property
    def state(self) -> State:
        return self._state

    @property
    def retries(self) -> int:
        """Requests sent again so far."""
        return self._requests.retries

    @property
    def late_answers(self) -> int:
        """Answers that came when nobody wanted them any more."""
        return self._requests.late_answers

    @property
    def hints(self) -> wire.Hints | None:
        """What the server last said of its load in this session, with an answer or a heartbeat."""
        return self._hints

    def free_window(self) -> int:
        return max(0, self._window - len(self._requests)) if self._state is State.READY else 0

    def estimate(self, now: float) -> LinkEstimate:
        return self._link.estimate(now)

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
        """Queue a request; see `ClientPort.submit`."""
        if self._state is not State.READY or len(self._requests) >= self._window:
            raise WindowFullError(
                f"{len(self._requests)} requests in flight, the window is {self._window}, "
                f"the connection {self._state.value}"
            )
        return self._requests.add(
            bundle=bundle,
            cut=cut,
            tensors=tuple(tensors),
            payloads=tuple(payloads),
            deadline_at=now + deadline_s,
            trace=trace,
        )

    def cancel(self, request_id: int) -> None:
        """Forget a request; the server is told if it may have it."""
        if self._requests.remove(request_id) and self._state is State.READY:
            self._outbox.append(wire.Cancel(id=request_id))

    def announce_tail(self, *, bundle: bytes, cut: str, due_s: float) -> None:
        """Tell the server what will probably be asked of it; see `ClientPort.announce_tail`."""
        if self._state is State.READY and self._sealer is None:
            due_ms = min(max(0, round(due_s * 1000)), wire.MAX_MILLIS)
            self._outbox.append(wire.TailDue(bundle=bundle, cut=cut, due_ms=due_ms))

    def push_bundle(self, digest: bytes, packed: Buffer) -> None:
        """Send a packed bundle as the server asks for it."""
        self._pushes.setdefault(digest, BundlePush(digest)).start(packed)

    def close(self) -> None:
        """Say goodbye; what is pending ends as Failed."""
        if self._state is State.CLOSED:
            return
        if self._state is State.READY:
            self._outbox.append(wire.Goodbye(reason="closed"))
        self._end(Turn.CLOSED, ErrorCode.SHUTTING_DOWN, "the connection was closed on this side")

    def link_up(self, now: float) -> None:
        """The transport is connected (for CURVE: the handshake has succeeded)."""
        if self._state is State.CLOSED:
            return
        if self._state is State.READY:
            self._report_down("the transport reconnected")
        self._turn(Turn.LINK_UP)
        self._hellos = 0
        self._greet(now)

    def link_down(self, reason: str) -> None:
        """The transport lost its connection, or could not make one."""
        if self._state is State.CLOSED:
            return
        self._report_down(reason)
        self._turn(Turn.LINK_DOWN)
        self._link.link_lost()
        self._outbox.clear()
        self._hello_at = self._ping_at = None

    def receive(self, frames: Frames, now: float) -> None:
        """Take one multipart message.

        Raises WireError when it breaks the format: the shell counts and drops it, and the
        heartbeat decides whether the connection still lives. A server that speaks another
        version ends the connection for good.
        """
        if self._state is State.CLOSED:
            return
        try:
            message, payloads = wire.decode(frames)
        except wire.UnknownVersionError as error:
            self._rejected(ErrorCode.BAD_MESSAGE, error.message)
            return
        self._heard_at = now
        self._take(message, payloads, framed_bytes(frames, curve=self._curve), now)

    def to_send(self, now: float) -> list[list[Buffer]]:
        """Frames to send now, one multipart message at a time."""
        frames = [wire.encode(message) for message in self._outbox]
        self._outbox.clear()
        if self._state is State.READY:
            frames += self._requests.to_send(now)
            for push in self._pushes.values():
                frames += [wire.encode(part, [payload]) for part, payload in push.parts(now)]
        return frames

    def next_event(self) -> ClientEvent | None:
        return self._events.popleft() if self._events else None

    def next_timer(self) -> float | None:
        """When `on_timer` wants to be called next."""
        times = [self._hello_at, self._ping_at, self._requests.next_timer()]
        if self._state is State.READY:
            times += [push.stalls_at for push in self._pushes.values()]
        return min((t for t in times if t is not None), default=None)

    def on_timer(self, now: float) -> None:
        """Do what has become due by `now`."""
        if self._hello_at is not None and now >= self._hello_at:
            self._greet(now)
        if self._ping_at is not None and now >= self._ping_at:
            self._beat(now)
        for expired, sent in self._requests.on_timer(now):
            if sent and self._state is State.READY:
                self._outbox.append(wire.Cancel(id=expired.id))
            self._events.append(expired)

    @property
    def _window(self) -> int:
        return 0 if self._offer is None else self._offer.window

    def _turn(self, turn: Turn) -> None:
        following = TABLE[self._state].get(turn)
        if following is None:
            raise StateError(f"{turn.value} while {self._state.value}")
        self._state = following

    def _take(self, message: wire.Message, payloads: Frames, size: int, now: float) -> None:
        event: ClientEvent | None = None
        if isinstance(message, _WITH_HINTS):
            self._hints = message.hints
        match message:
            case wire.Offer():
                self._offered(message, now)
            case wire.Result():
                event = self._requests.answered(message, payloads, size, now)
            case wire.Advice():
                self._requests.advised(message)
            case wire.Busy():
                event = self._requests.busy(message, now)
            case wire.ErrorReply(id=0):
                self._refused(message, now)
            case wire.ErrorReply():
                event = self._requests.failed(message)
            case wire.Ping():
                self._outbox.append(wire.Pong(nonce=message.nonce, hints=wire.Hints()))
            case wire.Pong():
                if (sent_at := self._pings.pop(message.nonce, None)) is not None:
                    self._link.heartbeat_returned(now - sent_at, now)
            case wire.BundleNeed():
                event = self._needed(message, now)
            case wire.BundleHave():
                self._pushes.pop(message.digest, None)
                event = BundleAccepted(digest=message.digest)
            case wire.BundleRefused():
                self._pushes.pop(message.digest, None)
                event = BundleDeclined(digest=message.digest, reason=message.reason)
            case wire.Goodbye():
                self._dismissed(f"the edge said goodbye: {message.reason}", now)
            case wire.Hello() | wire.Request() | wire.Cancel() | wire.BundlePart() | wire.TailDue():
                raise wire.WireError(f"{type(message).__name__} came from a server")
            case _:
                assert_never(message)
        if event is not None:
            self._events.append(event)

    def _greet(self, now: float) -> None:
        self._outbox.append(self._hello)
        wait_s = min(_HELLO_EVERY_S * 2 ** min(self._hellos, 10), _HELLO_AT_MOST_EVERY_S)
        self._hellos += 1
        self._hello_at = now + wait_s * (0.5 + self._random())

    def _offered(self, offer: wire.Offer, now: float) -> None:
        if self._state is State.DOWN or offer.session != self._hello.session:
            return
        restarted = self._offer is not None and self._offer.boot != offer.boot
        repeated = self._state is State.READY and not restarted
        self._turn(Turn.OFFERED)
        self._offer = offer
        if repeated:
            return
        if self._sealer is not None:
            self._sealer.begin(session=offer.session, boot=offer.boot)
        self._hello_at, self._hellos, self._down_reason, self._hints = None, 0, None, None
        self._pings.clear()
        self._beat(now)
        self._requests.requeue_all()
        self._events.append(Connected(offer=offer, restarted=restarted))

    def _beat(self, now: float) -> None:
        assert self._offer is not None, "only a session has heartbeats"
        heartbeat_s = self._offer.heartbeat_ms / 1000
        if self._pings and now - self._heard_at > _SILENT_HEARTBEATS * heartbeat_s:
            self._report_down("the edge does not answer heartbeats")
            self._turn(Turn.SILENT)
            self._link.link_lost()
            self._ping_at = None
            self._greet(now)
            return
        self._pings[self._next_nonce] = now
        while len(self._pings) > _SILENT_HEARTBEATS + 1:
            del self._pings[next(iter(self._pings))]
        self._outbox.append(wire.Ping(nonce=self._next_nonce))
        self._next_nonce += 1
        self._ping_at = now + heartbeat_s

    def _refused(self, reply: wire.ErrorReply, now: float) -> None:
        if reply.code in (ErrorCode.NO_SESSION, ErrorCode.SHUTTING_DOWN):
            self._dismissed(f"the edge ended the session: {reply.message}", now)
        else:
            self._rejected(reply.code, reply.message)

    def _rejected(self, code: ErrorCode, message: str) -> None:
        if self._state is not State.DOWN:
            self._events.append(Disconnected(reason=message, final=True))
            self._end(Turn.REJECTED, code, message)

    def _dismissed(self, reason: str, now: float) -> None:
        if self._state is State.DOWN:
            return
        if self._state is State.READY:
            self._report_down(reason)
        self._turn(Turn.DISMISSED)
        self._ping_at = None
        if self._hello_at is None:
            # Not at once: a server that is shutting down would be greeted in a tight loop.
            self._hello_at = now + _HELLO_EVERY_S * self._random()

    def _needed(self, need: wire.BundleNeed, now: float) -> BundleWanted | None:
        push = self._pushes.setdefault(need.digest, BundlePush(need.digest))
        push.wanted(need.offset, now)
        if push.started or push.announced:
            return None
        push.announced = True
        return BundleWanted(digest=need.digest)

    def _report_down(self, reason: str) -> None:
        if reason != self._down_reason:
            self._down_reason = reason
            self._events.append(Disconnected(reason=reason))

    def _end(self, turn: Turn, code: ErrorCode, message: str) -> None:
        self._turn(turn)
        self._events.extend(self._requests.fail_all(code, message))
        self._hello_at = self._ping_at = None
