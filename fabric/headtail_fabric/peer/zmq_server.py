"""The server core over a ZeroMQ ROUTER.

The socket is worked by whoever calls `poll`; answers may come from any thread and are sent by the
next turn of that loop, which they wake. So the program must go on polling for as long as it serves.
"""

import secrets
import threading
from collections import deque
from collections.abc import Sequence
from typing import Final

import zmq

from headtail_fabric.allowlist import AllowList
from headtail_fabric.clock import Clock, MonotonicClock
from headtail_fabric.keys import KeyPair
from headtail_fabric.peer import options
from headtail_fabric.peer.events import ServerEvent
from headtail_fabric.peer.geometry import framed_bytes
from headtail_fabric.peer.meter import SocketMeter
from headtail_fabric.peer.ports import TrafficCount
from headtail_fabric.peer.server import ServerCore
from headtail_fabric.peer.traffic import MessageCount
from headtail_fabric.peer.wakeup import Wakeup
from headtail_fabric.wire import Buffer, ErrorCode, Frames, Hints, TensorInfo, Timings
from headtail_fabric.zap import Authenticator, check_exposure, identity_of, server_curve

_READ_AT_ONCE: Final = 64
_LONGEST_WAIT_S: Final = 1.0


class ZmqServer:
    """A `ServerPort` over TCP. Close it, or use it as a context manager.

    With `keys` (the edge's pair) and `allow_list` every connection is CURVE and every client's
    key must be enrolled; the list may change while the server runs. Without them it binds to
    addresses of this machine only. Raises BindError, and ConfigError for an exposed address.
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
        clock: Clock | None = None,
    ) -> None:
        check_exposure(bind, has_allow_list=keys is not None and allow_list is not None)
        self._clock = clock or MonotonicClock()
        self._core = ServerCore(
            boot=secrets.token_bytes(16),
            name=name,
            agent=agent,
            window=window,
            heartbeat_s=heartbeat_s,
        )
        self._lock = threading.Lock()
        self._curve = keys is not None and allow_list is not None
        self._allow_list = allow_list if self._curve else None
        self._users: dict[str, str] = {}
        self._refresh_at = self._clock.now()
        self._backlog: deque[tuple[bytes, list[Buffer]]] = deque()
        self._count = MessageCount()
        self._undelivered = 0
        self._context = zmq.Context()
        self._authenticator: Authenticator | None = None
        self._socket: zmq.Socket[bytes] = self._context.socket(zmq.ROUTER)
        try:
            options.server(self._socket)
            if keys is not None and allow_list is not None:
                self._authenticator = Authenticator(self._context, allow_list)
                self._authenticator.start()
                server_curve(self._socket, keys)
            self._meter = SocketMeter(self._socket)
            self._endpoint = options.bind(self._socket, bind)
        except BaseException:
            if self._authenticator is not None:
                self._authenticator.stop()
            self._context.destroy(linger=0)
            raise
        self._wakeup = Wakeup()
        self._poller = zmq.Poller()
        self._poller.register(self._socket, zmq.POLLIN)
        self._poller.register(self._meter.monitor, zmq.POLLIN)
        self._poller.register(self._wakeup.fileno(), zmq.POLLIN)
        self._closed = False

    def __enter__(self) -> "ZmqServer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        with self._lock:
            return f"ZmqServer({self._endpoint}, {self._core!r}, undelivered={self._undelivered})"

    @property
    def endpoint(self) -> str:
        return self._endpoint

    def poll(self, timeout_s: float) -> ServerEvent | None:
        until = self._clock.now() + timeout_s
        turned = False
        while True:
            with self._lock:
                event = self._core.next_event()
                self._backlog.extend(self._core.to_send(self._clock.now()))
            self._flush()
            if event is not None:
                return event
            wait_s = until - self._clock.now()
            if turned and wait_s <= 0:
                return None
            self._turn(max(wait_s, 0.0))
            turned = True

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
        self._wakeup.wake()

    def busy(self, session: bytes, request_id: int, *, retry_after_s: float, hints: Hints) -> None:
        with self._lock:
            self._core.busy(session, request_id, retry_after_s=retry_after_s, hints=hints)
        self._wakeup.wake()

    def fail(self, session: bytes, request_id: int, code: ErrorCode, message: str) -> None:
        with self._lock:
            self._core.fail(session, request_id, code, message)
        self._wakeup.wake()

    def need_bundle(self, session: bytes, digest: bytes, offset: int) -> None:
        with self._lock:
            self._core.need_bundle(session, digest, offset)
        self._wakeup.wake()

    def serve_bundles(self, digests: Sequence[bytes]) -> None:
        with self._lock:
            self._core.serve_bundles(digests)
        self._wakeup.wake()

    def drop_session(self, session: bytes, reason: str) -> None:
        with self._lock:
            self._core.drop_session(session, reason)
        self._wakeup.wake()

    def traffic(self) -> TrafficCount:
        socket_bytes = self._meter.socket_bytes()
        with self._lock:
            return self._count.traffic_at_server(socket_bytes)

    def close(self, timeout_s: float = 1.0) -> None:
        if self._closed:
            return
        self._closed = True
        with self._lock:
            self._core.close("the server is shutting down")
            self._backlog.extend(self._core.to_send(self._clock.now()))
        self._flush()
        self._meter.drain()
        self._meter.close()
        self._socket.close(linger=int(timeout_s * 1000))
        if self._authenticator is not None:
            self._authenticator.stop()
        self._context.term()
        self._wakeup.close()

    def _turn(self, wait_s: float) -> None:
        self._poller.modify(self._socket, zmq.POLLIN | (zmq.POLLOUT if self._backlog else 0))
        with self._lock:
            due_at = self._core.next_timer()
        if due_at is not None:
            wait_s = min(wait_s, max(due_at - self._clock.now(), 0.0))
        ready = dict(self._poller.poll(int(min(wait_s, _LONGEST_WAIT_S) * 1000)))
        if self._wakeup.fileno() in ready:
            self._wakeup.clear()
        if self._meter.monitor in ready:
            self._meter.drain()
        with self._lock:
            if ready.get(self._socket, 0) & zmq.POLLIN:
                self._read()
            now = self._clock.now()
            if due_at is not None and now >= due_at:
                self._core.on_timer(now)
            self._refresh_allow_list(now)

    def _read(self) -> None:
        for _ in range(_READ_AT_ONCE):
            try:
                parts = self._socket.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return
            route = parts[0].bytes
            frames = [part.buffer for part in parts[1:]]
            self._count.came(framed_bytes(frames, curve=self._curve))
            user = ""
            if self._curve:
                identity = identity_of(parts[-1])
                if identity is None:
                    continue
                user = self._users[identity.public] = identity.user
            self._core.receive(route, user, frames, self._clock.now())

    def _flush(self) -> None:
        while self._backlog:
            route, frames = self._backlog.popleft()
            try:
                self._socket.send_multipart([route, *frames], zmq.NOBLOCK, copy=False)
            except zmq.ZMQError:
                # Gone, or so slow that its queue is full: the client asks again if it still cares,
                # and the reply is kept for that.
                self._undelivered += 1
            else:
                self._count.left(framed_bytes(frames, curve=self._curve))

    def _refresh_allow_list(self, now: float) -> None:
        if self._allow_list is None or now < self._refresh_at:
            return
        self._refresh_at = now + _LONGEST_WAIT_S
        for public in self._allow_list.refresh():
            if (user := self._users.pop(public, None)) is not None:
                self._core.drop_user(user, "this key is no longer allowed here")
