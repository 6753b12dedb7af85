"""The server core over a ZeroMQ ROUTER.

The socket is worked by whoever calls `poll`; answers may come from any thread and are sent by the
next turn of that loop, which they wake. So the program must go on polling for as long as it serves.
"""

import secrets
from collections import deque
from collections.abc import Sequence
from typing import Final

import zmq

from headtail_fabric.allowlist import AllowList
from headtail_fabric.clock import Clock, MonotonicClock
from headtail_fabric.keys import KeyPair
from headtail_fabric.peer import options
from headtail_fabric.peer.events import Alternative, ServerEvent
from headtail_fabric.peer.ports import Offered, TrafficCount, to_everyone
from headtail_fabric.peer.server import ServerCore
from headtail_fabric.peer.zmq_loop import ZmqLoop
from headtail_fabric.peer.zmq_port import ZmqPort
from headtail_fabric.seal import Opener
from headtail_fabric.wire import Buffer, ErrorCode, Frames, Hints, TensorInfo, Timings
from headtail_fabric.zap import Authenticator, Identity, check_exposure, identity_of, server_curve

_REFRESH_S: Final = 1.0


class ZmqServer(ZmqPort[ServerEvent]):
    """A `ServerPort` over TCP. Close it, or use it as a context manager.

    With `keys` (the edge's pair) and `allow_list` every connection is CURVE and every client's
    key must be enrolled; the list may change while the server runs. Without them it binds to
    addresses of this machine only. `opener` opens sealed payloads. Raises BindError, and
    ConfigError for an exposed address.
    """

    def __init__(
        self,
        bind: str,
        *,
        name: str,
        agent: str = "headtail",
        window: int = 16,
        heartbeat_s: float = 1.0,
        keys: KeyPair | None = None,
        allow_list: AllowList | None = None,
        opener: Opener | None = None,
        clock: Clock | None = None,
    ) -> None:
        check_exposure(bind, has_allow_list=keys is not None and allow_list is not None)
        super().__init__(clock or MonotonicClock())
        self._core = ServerCore(
            boot=secrets.token_bytes(16),
            name=name,
            agent=agent,
            window=window,
            heartbeat_s=heartbeat_s,
            opener=opener,
        )
        self._curve = keys is not None and allow_list is not None
        self._allow_list = allow_list if self._curve else None
        self._revoked: set[str] = set()
        self._refresh_at = self._clock.now()
        self._backlog: deque[tuple[bytes, list[Buffer]]] = deque()
        self._undelivered = 0
        self._authenticator: Authenticator | None = None
        self._closed = False

        def attach(socket: "zmq.Socket[bytes]") -> None:
            options.server(socket)
            if keys is not None and allow_list is not None:
                self._authenticator = Authenticator(socket.context, allow_list)
                self._authenticator.start()
                server_curve(socket, keys)
            self._endpoint = options.bind(socket, bind)

        self._endpoint = bind
        self._loop = ZmqLoop(zmq.ROUTER, curve=self._curve, attach=attach)

    def __repr__(self) -> str:
        with self._lock:
            return f"ZmqServer({self._endpoint}, {self._core!r}, undelivered={self._undelivered})"

    @property
    def endpoint(self) -> str:
        return self._endpoint

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
        with self._lock:
            self._core.respond(
                session,
                request_id,
                tensors=tensors,
                payloads=payloads,
                timings=timings,
                hints=hints,
                now=self._clock.now(),
            )
        self._loop.wake()

    def busy(
        self,
        session: bytes,
        request_id: int,
        *,
        retry_after_s: float,
        hints: Hints,
        instead: Alternative | None = None,
    ) -> None:
        with self._lock:
            self._core.busy(
                session, request_id, retry_after_s=retry_after_s, hints=hints, instead=instead
            )
        self._loop.wake()

    def advertise(self, hints: Hints) -> None:
        with self._lock:
            self._core.advertise(hints)

    def fail(self, session: bytes, request_id: int, code: ErrorCode, message: str) -> None:
        with self._lock:
            self._core.fail(session, request_id, code, message)
        self._loop.wake()

    def need_bundle(self, session: bytes, digest: bytes, offset: int) -> None:
        with self._lock:
            self._core.need_bundle(session, digest, offset)
        self._loop.wake()

    def refuse_bundle(self, session: bytes, digest: bytes, reason: str) -> None:
        with self._lock:
            self._core.refuse_bundle(session, digest, reason)
        self._loop.wake()

    def serve_bundles(self, digests: Sequence[bytes], offered: Offered = to_everyone) -> None:
        with self._lock:
            self._core.serve_bundles(digests, offered)
        self._loop.wake()

    def drop_session(self, session: bytes, reason: str) -> None:
        with self._lock:
            self._core.drop_session(session, reason)
        self._loop.wake()

    def traffic(self) -> TrafficCount:
        return self._loop.count.traffic_at_server(self._loop.socket_bytes())

    def close(self, timeout_s: float = 1.0) -> None:
        if self._closed:
            return
        self._closed = True
        with self._lock:
            self._core.close("the server is shutting down")
            self._backlog.extend(self._core.to_send(self._clock.now()))
        self._flush()
        if self._authenticator is not None:
            self._authenticator.stop()
        self._loop.close(timeout_s)

    def _collect(self, now: float) -> ServerEvent | None:
        with self._lock:
            self._backlog.extend(self._core.to_send(now))
            return self._core.next_event()

    def _next_timer(self) -> float | None:
        return self._core.next_timer()

    @property
    def _wants_room(self) -> bool:
        return False

    def _tend(self, now: float) -> None:
        self._loop.take_events()  # a client's fate is told by its heartbeats
        with self._lock:
            due_at = self._core.next_timer()
            if due_at is not None and now >= due_at:
                self._core.on_timer(now)
            self._refresh_allow_list(now)

    def _read(self, now: float) -> int:
        came = 0
        with self._lock:
            for parts in self._loop.read(now):
                came += 1
                frames: list[Buffer] = [part.buffer for part in parts[1:]]
                self._loop.count_received(frames)
                user = ""
                if self._curve:
                    identity = identity_of(parts[-1])
                    if identity is None or self._is_revoked(identity):
                        continue
                    user = identity.user
                self._core.receive(parts[0].bytes, user, frames, self._clock.now())
        return came

    def _flush(self) -> None:
        while self._backlog:
            route, frames = self._backlog.popleft()
            try:
                delivered = self._loop.send(frames, route=route)
            except zmq.ZMQError:
                delivered = False
            # Gone, or so slow that its queue is full: the client asks again if it still cares,
            # and the reply is kept for that.
            self._undelivered += not delivered

    def _refresh_allow_list(self, now: float) -> None:
        if self._allow_list is None or now < self._refresh_at:
            return
        self._refresh_at = now + _REFRESH_S
        for public, user in self._allow_list.refresh().items():
            self._revoked.add(public)
            self._core.drop_user(user, "this key is no longer allowed here")

    def _is_revoked(self, identity: Identity) -> bool:
        """Whether the key was revoked since its handshake: ZAP is asked only there, and the
        connection may still stand."""
        if identity.public not in self._revoked or self._allow_list is None:
            return False
        member = self._allow_list.lookup(identity.public)
        if member is None or member.name != identity.user:
            return True
        self._revoked.discard(identity.public)
        return False
