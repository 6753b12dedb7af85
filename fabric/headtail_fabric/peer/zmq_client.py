"""The client core over a ZeroMQ DEALER.

The socket is worked by whoever calls `poll`; other threads may submit and cancel, which wakes it.
So a program that computes for long between two polls gives a thread of its own to polling: then
answers are stamped when they come, and heartbeats go out in time.
"""

import random
import secrets
from collections import deque
from collections.abc import Sequence
from typing import Final

import zmq

from headtail_fabric.clock import Clock, MonotonicClock
from headtail_fabric.keys import KeyPair
from headtail_fabric.link import LinkEstimate
from headtail_fabric.peer import options
from headtail_fabric.peer.client import ClientCore
from headtail_fabric.peer.events import ClientEvent
from headtail_fabric.peer.meter import TransportEvent
from headtail_fabric.peer.ports import TrafficCount
from headtail_fabric.peer.zmq_loop import ZmqLoop
from headtail_fabric.peer.zmq_port import ZmqPort
from headtail_fabric.seal import Sealer
from headtail_fabric.wire import Buffer, Frames, Hints, TensorInfo, WireError
from headtail_fabric.zap import client_curve

_WHY_DOWN: Final = {
    zmq.Event.HANDSHAKE_FAILED_AUTH: "the edge refused this device's key (is it enrolled there?)",
    zmq.Event.HANDSHAKE_FAILED_PROTOCOL: "the other side does not speak ZMTP with the same keys",
    zmq.Event.HANDSHAKE_FAILED_NO_DETAIL: "the handshake broke off (is the server key right?)",
    zmq.Event.DISCONNECTED: "the connection broke",
    zmq.Event.CLOSED: "nobody answers there",
}


class ZmqClient(ZmqPort[ClientEvent]):
    """A `ClientPort` over TCP. Close it, or use it as a context manager.

    With `keys` (this device's) and `server_key` (the edge's public key, Z85) the connection is
    CURVE; without, it is plain. With a `sealer` of its own payloads are sealed besides. Raises
    ConnectError for an address that can't be tried; an edge that is not there is no error but a
    `Disconnected` event, and is tried again and again.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        name: str,
        agent: str = "headtail",
        bundles: Sequence[bytes] = (),
        can_push: bool = False,
        keys: KeyPair | None = None,
        server_key: str | None = None,
        sealer: Sealer | None = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(clock or MonotonicClock())
        curve = keys is not None and server_key is not None
        self._core = ClientCore(
            session=secrets.token_bytes(16),
            name=name,
            agent=agent,
            bundles=bundles,
            can_push=can_push,
            curve=curve,
            random=random.Random(secrets.randbits(64)).random,  # noqa: S311 - only jitter
            sealer=sealer,
        )
        self._backlog: deque[list[Buffer]] = deque()
        self._bad_messages = 0
        self._closed = False

        def attach(socket: "zmq.Socket[bytes]") -> None:
            options.client(socket)
            if keys is not None and server_key is not None:
                client_curve(socket, keys, server_key)
            options.connect(socket, endpoint)

        self._loop = ZmqLoop(zmq.DEALER, curve=curve, attach=attach)

    def __repr__(self) -> str:
        with self._lock:
            return f"ZmqClient({self._core!r}, bad_messages={self._bad_messages})"

    def submit(
        self,
        *,
        bundle: bytes,
        cut: str,
        tensors: Sequence[TensorInfo],
        payloads: Frames,
        deadline_s: float,
        trace: str = "",
    ) -> int:
        with self._lock:
            request_id = self._core.submit(
                bundle=bundle,
                cut=cut,
                tensors=tensors,
                payloads=payloads,
                deadline_s=deadline_s,
                now=self._clock.now(),
                trace=trace,
            )
        self._loop.wake()
        return request_id

    def cancel(self, request_id: int) -> None:
        with self._lock:
            self._core.cancel(request_id)
        self._loop.wake()

    def announce_tail(self, *, bundle: bytes, cut: str, due_s: float) -> None:
        with self._lock:
            self._core.announce_tail(bundle=bundle, cut=cut, due_s=due_s)
        self._loop.wake()

    def free_window(self) -> int:
        with self._lock:
            return self._core.free_window()

    def push_bundle(self, digest: bytes, packed: Buffer) -> None:
        with self._lock:
            self._core.push_bundle(digest, packed)
        self._loop.wake()

    def estimate(self) -> LinkEstimate:
        with self._lock:
            return self._core.estimate(self._clock.now())

    def hints(self) -> Hints | None:
        """What the edge last said of its load in this session."""
        with self._lock:
            return self._core.hints

    def traffic(self) -> TrafficCount:
        return self._loop.count.traffic_at_client(
            self._loop.socket_bytes(), retries=self._core.retries
        )

    def close(self, timeout_s: float = 1.0) -> None:
        if self._closed:
            return
        self._closed = True
        with self._lock:
            self._core.close()
            self._backlog.extend(self._core.to_send(self._clock.now()))
        self._flush()
        self._loop.close(timeout_s)

    def _read(self, now: float) -> int:
        came = 0
        with self._lock:
            for parts in self._loop.read(now):
                came += 1
                frames: list[Buffer] = [part.buffer for part in parts]
                self._loop.count_received(frames)
                try:
                    self._core.receive(frames, self._clock.now())
                except WireError:
                    self._bad_messages += 1
        return came

    def _flush(self) -> None:
        while self._backlog and self._loop.send(self._backlog[0]):
            self._backlog.popleft()

    def _collect(self, now: float) -> ClientEvent | None:
        with self._lock:
            self._backlog.extend(self._core.to_send(now))
            return self._core.next_event()

    def _next_timer(self) -> float | None:
        return self._core.next_timer()

    @property
    def _wants_room(self) -> bool:
        return bool(self._backlog)

    def _tend(self, now: float) -> None:
        with self._lock:
            for event in self._loop.take_events():
                self._follow(event)
            due_at = self._core.next_timer()
            if due_at is not None and now >= due_at:
                self._core.on_timer(now)

    def _follow(self, event: TransportEvent) -> None:
        if event.kind == zmq.Event.HANDSHAKE_SUCCEEDED:
            self._core.link_up(self._clock.now())
        elif event.kind in _WHY_DOWN:
            self._backlog.clear()
            self._core.link_down(_WHY_DOWN[event.kind])
