"""The edge's end of its connections, sans-IO.

Messages come with the transport's `route` (an address that the transport itself gave to the
connection, so that nobody can claim another's) and the `user` that the transport authenticated.
A session belongs to the user that opened it: the same session id from another user is refused,
from the same user it moves to the new route, which is how a device comes back after a broken
connection and finds its requests still being worked on.

A message that breaks the format costs its sender the session, and its route is not listened to
for a while; nobody else notices.
"""

from collections import deque
from collections.abc import Sequence
from math import inf
from typing import Final, assert_never

from headtail_fabric import wire
from headtail_fabric.peer.events import (
    Alternative,
    BundlePartArrived,
    RequestArrived,
    RequestCancelled,
    ServerEvent,
    SessionClosed,
    SessionOpened,
    TailAnnounced,
)
from headtail_fabric.peer.ports import Offered, to_everyone
from headtail_fabric.peer.session import Progress, Seen, Session
from headtail_fabric.seal import AnswerSealer, NotSealedError, Opener, WrongSealKeyError
from headtail_fabric.seal.opener import refuse_unless_clear
from headtail_fabric.wire import Buffer, ErrorCode, Frames, Hints, TensorInfo, Timings

_SILENT_HEARTBEATS: Final = 4
_MUTED_S: Final = 10.0
_MUTED_ROUTES: Final = 1024
_BUSY_RETRY_S: Final = 0.05


class ServerCore:
    """All clients of one server.

    `boot` is 16 random bytes, new at each start. `window` is how many requests one session may
    have in progress; `sessions_per_user` bounds what one key can take (the oldest is closed).
    `opener` opens requests that are sealed to this edge; without it they are refused.
    """

    def __init__(
        self,
        *,
        boot: bytes,
        name: str,
        agent: str,
        window: int,
        heartbeat_s: float = 1.0,
        max_sessions: int = 1024,
        sessions_per_user: int = 8,
        opener: Opener | None = None,
    ) -> None:
        self._boot = boot
        self._name = name
        self._agent = agent
        self._window = window
        self._heartbeat_s = heartbeat_s
        self._max_sessions = max_sessions
        self._sessions_per_user = sessions_per_user
        self._opener = opener
        self._bundles: tuple[bytes, ...] = ()
        self._offered: Offered = to_everyone
        self._sessions: dict[bytes, Session] = {}
        self._by_route: dict[bytes, Session] = {}
        self._muted: dict[bytes, float] = {}
        self._outbox: list[tuple[bytes, list[Buffer]]] = []
        self._events: deque[ServerEvent] = deque()
        self._hints = Hints()
        self._due_at = inf
        """Nothing is due before; what was heard or answered since makes it later."""
        self.bad_messages = 0
        self.bad_seals = 0
        self.repeated_requests = 0

    def __repr__(self) -> str:
        busy = sum(session.in_progress for session in self._sessions.values())
        return (
            f"ServerCore(sessions={len(self._sessions)}, in_progress={busy}, "
            f"bad={self.bad_messages}, repeated={self.repeated_requests})"
        )

    @property
    def sessions(self) -> int:
        """How many sessions are open."""
        return len(self._sessions)

    def receive(self, route: bytes, user: str, frames: Frames, now: float) -> None:
        """Take one multipart message of the connection `route`. Never raises for bad input."""
        if self._muted and now < self._muted.get(route, 0.0):
            return
        try:
            message, payloads = wire.decode(frames)
            self._take(route, user, message, payloads, now)
        except wire.WireError as error:
            self.bad_messages += 1
            self._reject(route, ErrorCode.BAD_MESSAGE, error.message, now)

    def to_send(self, now: float) -> list[tuple[bytes, list[Buffer]]]:
        """Routes and frames to send now."""
        frames, self._outbox = self._outbox, []
        return frames

    def next_event(self) -> ServerEvent | None:
        return self._events.popleft() if self._events else None

    def next_timer(self) -> float | None:
        """When `on_timer` wants to be called next: perhaps for nothing, but never too late."""
        return self._due_at if self._sessions else None

    def on_timer(self, now: float) -> None:
        """Close silent sessions and let go of requests whose deadline has passed."""
        for session in list(self._sessions.values()):
            if now >= session.heard_at + self._silence_s:
                # Told all the same: it may be only slow, and can say hello again.
                self.drop_session(session.id, "silent for too long")
                continue
            for request_id in session.expired(now):
                self._finish(
                    session, request_id, ErrorCode.EXPIRED, "the deadline passed in the queue"
                )
                cancelled = RequestCancelled(session=session.id, id=request_id)
                self._events.append(cancelled)
        self._due_at = min(
            (min(s.heard_at + self._silence_s, s.next_deadline()) for s in self._sessions.values()),
            default=inf,
        )

    def respond(
        self,
        session_id: bytes,
        request_id: int,
        *,
        tensors: Sequence[TensorInfo],
        payloads: Frames,
        timings: Timings,
        hints: Hints,
        now: float,
    ) -> None:
        """Answer a request; see `ServerPort.respond`."""
        self._hints = hints
        session = self._sessions.get(session_id)
        progress = session.finish(request_id) if session is not None else None
        if session is None or progress is None:
            return
        if progress.answers is not None:
            sealed, envelope = progress.answers.seal(tensors, payloads)
            tensors, payloads = (sealed,), (envelope,)
        result = wire.Result(
            id=request_id,
            tensors=tuple(tensors),
            timings=Timings(
                queue_us=timings.queue_us,
                decode_us=timings.decode_us,
                compute_us=timings.compute_us,
                post_us=timings.post_us,
                resident_us=max(0, round((now - progress.arrived_at) * 1e6)),
            ),
            hints=hints,
        )
        self._reply(session, request_id, wire.encode(result, payloads))

    def busy(
        self,
        session_id: bytes,
        request_id: int,
        *,
        retry_after_s: float,
        hints: Hints,
        instead: Alternative | None = None,
    ) -> None:
        """Refuse a request for now: a repetition of it will count as new."""
        self._hints = hints
        session = self._sessions.get(session_id)
        if session is not None and session.refuse(request_id):
            if instead is not None:
                advice = wire.Advice(id=request_id, cut=instead.cut, codec=instead.codec)
                self._send(session.route, advice)
            self._send_busy(session, request_id, retry_after_s)

    def advertise(self, hints: Hints) -> None:
        """What is said of the load from now on, without a reply that says it."""
        self._hints = hints

    def fail(self, session_id: bytes, request_id: int, code: ErrorCode, message: str) -> None:
        """Refuse a request for good."""
        session = self._sessions.get(session_id)
        if session is not None:
            self._finish(session, request_id, code, message)

    def need_bundle(self, session_id: bytes, digest: bytes, offset: int) -> None:
        """Ask a session for a bundle's packed bytes from `offset` on."""
        session = self._sessions.get(session_id)
        if session is not None:
            self._send(session.route, wire.BundleNeed(digest=digest, offset=offset))

    def refuse_bundle(self, session_id: bytes, digest: bytes, reason: str) -> None:
        """Tell a session that its bundle is not taken."""
        session = self._sessions.get(session_id)
        if session is not None:
            refused = wire.BundleRefused(digest=digest, reason=reason[:512])
            self._send(session.route, refused)

    def serve_bundles(self, digests: Sequence[bytes], offered: Offered) -> None:
        """What is served from now on, and to whom; open sessions are told of what is new."""
        fresh = [digest for digest in digests if digest not in self._bundles]
        self._bundles, self._offered = tuple(digests), offered
        for session in self._sessions.values():
            for digest in fresh:
                if offered(session.user or session.name, digest):
                    self._send(session.route, wire.BundleHave(digest=digest))

    def drop_session(self, session_id: bytes, reason: str) -> None:
        """End one session."""
        session = self._sessions.get(session_id)
        if session is not None:
            self._send(session.route, wire.Goodbye(reason=reason[:512]))
            self._close(session, reason)

    def drop_user(self, user: str, reason: str) -> None:
        """End every session of a user whose key is no longer allowed, for good."""
        for session in [s for s in self._sessions.values() if s.user == user]:
            error = wire.ErrorReply(id=0, code=ErrorCode.NOT_ALLOWED, message=reason[:512])
            self._send(session.route, error)
            self._close(session, reason)

    def close(self, reason: str) -> None:
        """End every session."""
        for session_id in list(self._sessions):
            self.drop_session(session_id, reason)

    @property
    def _silence_s(self) -> float:
        return _SILENT_HEARTBEATS * self._heartbeat_s

    def _take(
        self, route: bytes, user: str, message: wire.Message, payloads: Frames, now: float
    ) -> None:
        if isinstance(message, wire.Hello):
            self._greeted(route, user, message, now)
            return
        session = self._by_route.get(route)
        if session is None or session.user != user:
            if not isinstance(message, wire.Goodbye):
                error = wire.ErrorReply(id=0, code=ErrorCode.NO_SESSION, message="say hello first")
                self._send(route, error)
            return
        session.heard_at = now
        match message:
            case wire.Request():
                self._requested(session, message, payloads, now)
            case wire.Ping():
                self._send(route, wire.Pong(nonce=message.nonce, hints=self._hints))
            case wire.Pong():
                pass
            case wire.Cancel():
                if session.finish(message.id) is not None:
                    self._events.append(RequestCancelled(session=session.id, id=message.id))
            case wire.TailDue():
                due = TailAnnounced(
                    session=session.id,
                    user=session.user,
                    bundle=message.bundle,
                    cut=message.cut,
                    due_s=message.due_ms / 1000,
                )
                self._events.append(due)
            case wire.BundlePart():
                part = BundlePartArrived(
                    session=session.id,
                    user=session.user,
                    digest=message.digest,
                    offset=message.offset,
                    total=message.total,
                    payload=payloads[0],
                )
                self._events.append(part)
            case wire.Goodbye():
                self._close(session, f"said goodbye: {message.reason}")
            case (
                wire.Offer()
                | wire.Result()
                | wire.Busy()
                | wire.ErrorReply()
                | wire.BundleNeed()
                | wire.BundleHave()
                | wire.BundleRefused()
                | wire.Advice()
            ):
                raise wire.WireError(f"{type(message).__name__} came from a client")
            case _:
                assert_never(message)

    def _greeted(self, route: bytes, user: str, hello: wire.Hello, now: float) -> None:
        session = self._sessions.get(hello.session)
        if session is not None and session.user != user:
            self._reject(route, ErrorCode.NOT_ALLOWED, "this session belongs to another key", now)
            return
        other = self._by_route.get(route)
        if other is not None and other is not session:
            self._close(other, "its connection opened another session")
        if session is None:
            self._make_room(user)
            session = Session(
                id=hello.session,
                user=user,
                name=hello.name,
                route=route,
                kept=2 * self._window,
                now=now,
            )
            self._sessions[session.id] = session
            opened = SessionOpened(
                session=session.id,
                name=hello.name,
                user=user,
                can_push=hello.can_push,
                bundles=hello.bundles,
            )
            self._events.append(opened)
        else:
            self._by_route.pop(session.route, None)
        session.route, session.heard_at = route, now
        self._due_at = min(self._due_at, now + self._silence_s)
        self._by_route[route] = session
        offer = wire.Offer(
            session=session.id,
            boot=self._boot,
            name=self._name,
            agent=self._agent,
            bundles=tuple(
                digest
                for digest in self._bundles
                if self._offered(session.user or session.name, digest)
            ),
            window=self._window,
            heartbeat_ms=round(self._heartbeat_s * 1000),
        )
        self._send(route, offer)

    def _make_room(self, user: str) -> None:
        """Before a new session: without keys ("") all share one user and only the total counts."""
        same = [s for s in self._sessions.values() if user and s.user == user]
        if len(same) >= self._sessions_per_user:
            self.drop_session(min(same, key=_age).id, "too many sessions for this key")
        elif len(self._sessions) >= self._max_sessions:
            self.drop_session(min(self._sessions.values(), key=_age).id, "too many sessions")

    def _requested(
        self, session: Session, request: wire.Request, payloads: Frames, now: float
    ) -> None:
        seen = session.seen(request.id)
        if seen is not Seen.NEW:
            self.repeated_requests += 1
            if seen is Seen.ANSWERED:
                self._outbox.append((session.route, session.reply(request.id)))
            elif seen is Seen.FORGOTTEN:
                error = wire.ErrorReply(
                    id=request.id, code=ErrorCode.EXPIRED, message="answered and forgotten"
                )
                self._send(session.route, error)
            return
        if session.in_progress >= self._window:
            self._send_busy(session, request.id, _BUSY_RETRY_S)
            return
        try:
            request, payloads, answers = self._opened(session, request, payloads)
        except wire.WireError as error:
            # Not the session's end, as for other bad messages: between the two may stand a relay.
            self.bad_seals += 1
            always = isinstance(error, WrongSealKeyError | NotSealedError)
            code = ErrorCode.NOT_ALLOWED if always else ErrorCode.BAD_SEAL
            refused = wire.ErrorReply(id=request.id, code=code, message=error.message[:512])
            self._send(session.route, refused)
            return
        deadline_at = now + request.remaining_ms / 1000
        progress = Progress(arrived_at=now, deadline_at=deadline_at, answers=answers)
        session.begin(request.id, progress)
        self._due_at = min(self._due_at, deadline_at)
        arrived = RequestArrived(
            session=session.id,
            user=session.user,
            request=request,
            payloads=payloads,
            arrived_at=now,
            deadline_at=deadline_at,
        )
        self._events.append(arrived)

    def _opened(
        self, session: Session, request: wire.Request, payloads: Frames
    ) -> tuple[wire.Request, Frames, AnswerSealer | None]:
        if self._opener is not None:
            return self._opener.open(request, payloads, session=session.id, boot=self._boot)
        refuse_unless_clear(request)
        return request, payloads, None

    def _send_busy(self, session: Session, request_id: int, retry_after_s: float) -> None:
        retry_after_ms = min(max(1, round(retry_after_s * 1000)), 86_400_000)
        busy = wire.Busy(id=request_id, retry_after_ms=retry_after_ms, hints=self._hints)
        self._send(session.route, busy)

    def _finish(self, session: Session, request_id: int, code: ErrorCode, message: str) -> None:
        if session.finish(request_id) is not None:
            error = wire.ErrorReply(id=request_id, code=code, message=message[:512])
            self._reply(session, request_id, wire.encode(error))

    def _reply(self, session: Session, request_id: int, frames: list[Buffer]) -> None:
        session.keep(request_id, frames)
        self._outbox.append((session.route, frames))

    def _send(self, route: bytes, message: wire.Message) -> None:
        self._outbox.append((route, wire.encode(message)))

    def _reject(self, route: bytes, code: ErrorCode, message: str, now: float) -> None:
        self._send(route, wire.ErrorReply(id=0, code=code, message=message[:512]))
        session = self._by_route.get(route)
        if session is not None:
            self._close(session, message)
        while len(self._muted) >= _MUTED_ROUTES:
            del self._muted[next(iter(self._muted))]
        self._muted[route] = now + _MUTED_S

    def _close(self, session: Session, reason: str) -> None:
        del self._sessions[session.id]
        if self._by_route.get(session.route) is session:
            del self._by_route[session.route]
        self._events.append(SessionClosed(session=session.id, reason=reason))


def _age(session: Session) -> float:
    return session.heard_at
