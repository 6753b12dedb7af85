"""The client core over a ZeroMQ DEALER, with a thread of its own.

The thread lets answers be stamped when they come, while the program computes. It alone touches
the socket; the core is shared under one lock.
"""

import queue
import secrets
import threading
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
from headtail_fabric.peer.geometry import framed_bytes
from headtail_fabric.peer.meter import SocketMeter, TransportEvent
from headtail_fabric.peer.ports import TrafficCount
from headtail_fabric.peer.traffic import MessageCount
from headtail_fabric.peer.wakeup import Wakeup
from headtail_fabric.wire import Buffer, Frames, TensorInfo, WireError
from headtail_fabric.zap import client_curve

_READ_AT_ONCE: Final = 64
_LONGEST_WAIT_S: Final = 5.0
_WHY_DOWN: Final = {
    zmq.Event.HANDSHAKE_FAILED_AUTH: "the edge refused this device's key (is it enrolled there?)",
    zmq.Event.HANDSHAKE_FAILED_PROTOCOL: "the other side does not speak ZMTP with the same keys",
    zmq.Event.HANDSHAKE_FAILED_NO_DETAIL: "the handshake broke off (is the server key right?)",
    zmq.Event.DISCONNECTED: "the connection broke",
    zmq.Event.CLOSED: "nobody answers there",
}


class ZmqClient:
    """A `ClientPort` over TCP. Close it, or use it as a context manager.

    With `keys` (this device's) and `server_key` (the edge's public key, Z85) the connection is
    CURVE; without, it is plain. Raises ConnectError for an address that can't be tried; an edge
    that is not there is no error but a `Disconnected` event, and is tried again and again.
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
        clock: Clock | None = None,
    ) -> None:
        self._clock = clock or MonotonicClock()
        self._curve = keys is not None and server_key is not None
        self._core = ClientCore(
            session=secrets.token_bytes(16),
            name=name,
            agent=agent,
            bundles=bundles,
            can_push=can_push,
            curve=self._curve,
            random=secrets.SystemRandom().random,
        )
        self._lock = threading.Lock()
        self._events: queue.SimpleQueue[ClientEvent] = queue.SimpleQueue()
        self._backlog: deque[list[Buffer]] = deque()
        self._count = MessageCount()
        self._bad_messages = 0
        self._context = zmq.Context()
        self._socket: zmq.Socket[bytes] = self._context.socket(zmq.DEALER)
        try:
            options.client(self._socket)
            if keys is not None and server_key is not None:
                client_curve(self._socket, keys, server_key)
            self._meter = SocketMeter(self._socket)
            options.connect(self._socket, endpoint)
        except BaseException:
            self._context.destroy(linger=0)
            raise
        self._wakeup = Wakeup()
        self._closing = threading.Event()
        self._linger_s = 0.0
        self._thread = threading.Thread(target=self._run, name=f"link {endpoint}", daemon=True)
        self._thread.start()

    def __enter__(self) -> "ZmqClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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
    ) -> int:
        with self._lock:
            request_id = self._core.submit(
                bundle=bundle,
                cut=cut,
                tensors=tensors,
                payloads=payloads,
                deadline_s=deadline_s,
                now=self._clock.now(),
            )
        self._wakeup.wake()
        return request_id

    def cancel(self, request_id: int) -> None:
        with self._lock:
            self._core.cancel(request_id)
        self._wakeup.wake()

    def free_window(self) -> int:
        with self._lock:
            return self._core.free_window()

    def poll(self, timeout_s: float) -> ClientEvent | None:
        try:
            return self._events.get(timeout=timeout_s) if timeout_s > 0 else self._events.get(False)
        except queue.Empty:
            return None

    def push_bundle(self, digest: bytes, packed: Buffer) -> None:
        with self._lock:
            self._core.push_bundle(digest, packed)
        self._wakeup.wake()

    def estimate(self) -> LinkEstimate:
        with self._lock:
            return self._core.estimate(self._clock.now())

    def traffic(self) -> TrafficCount:
        socket_bytes = self._meter.socket_bytes()
        with self._lock:
            return self._count.traffic_at_client(socket_bytes, retries=self._core.retries)

    def close(self, timeout_s: float = 1.0) -> None:
        if self._closing.is_set():
            return
        self._linger_s = timeout_s
        self._closing.set()
        self._wakeup.wake()
        self._thread.join()
        self._wakeup.close()

    def _run(self) -> None:
        poller = zmq.Poller()
        poller.register(self._socket, zmq.POLLIN)
        poller.register(self._meter.monitor, zmq.POLLIN)
        poller.register(self._wakeup.fileno(), zmq.POLLIN)
        while not self._closing.is_set():
            poller.modify(self._socket, zmq.POLLIN | (zmq.POLLOUT if self._backlog else 0))
            ready = dict(poller.poll(self._wait_ms()))
            if self._wakeup.fileno() in ready:
                self._wakeup.clear()
            with self._lock:
                if self._meter.monitor in ready:
                    for event in self._meter.drain():
                        self._follow(event)
                if ready.get(self._socket, 0) & zmq.POLLIN:
                    self._read()
                self._work()
            self._flush()
        with self._lock:
            self._core.close()
            self._work()
        self._flush()
        self._meter.drain()
        self._meter.close()
        self._socket.close(linger=int(self._linger_s * 1000))
        self._context.term()

    def _wait_ms(self) -> int:
        with self._lock:
            due_at = self._core.next_timer()
        wait_s = _LONGEST_WAIT_S if due_at is None else due_at - self._clock.now()
        return int(min(max(wait_s, 0.0), _LONGEST_WAIT_S) * 1000) + 1

    def _follow(self, event: TransportEvent) -> None:
        if event.kind == zmq.Event.HANDSHAKE_SUCCEEDED:
            self._core.link_up(self._clock.now())
        elif event.kind in _WHY_DOWN:
            self._backlog.clear()
            self._core.link_down(_WHY_DOWN[event.kind])

    def _read(self) -> None:
        for _ in range(_READ_AT_ONCE):
            try:
                parts = self._socket.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return
            frames = [part.buffer for part in parts]
            self._count.came(framed_bytes(frames, curve=self._curve))
            try:
                self._core.receive(frames, self._clock.now())
            except WireError:
                self._bad_messages += 1

    def _work(self) -> None:
        now = self._clock.now()
        due_at = self._core.next_timer()
        if due_at is not None and now >= due_at:
            self._core.on_timer(now)
        self._backlog.extend(self._core.to_send(now))
        while (event := self._core.next_event()) is not None:
            self._events.put(event)

    def _flush(self) -> None:
        while self._backlog:
            frames = self._backlog[0]
            try:
                self._socket.send_multipart(frames, zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return
            self._backlog.popleft()
            self._count.left(framed_bytes(frames, curve=self._curve))
