"""Both ends in memory, with a link that can be cut, delayed and made to lose messages.

What the tests of devices and edges program against, and a way to run both in one process without
a socket. Nothing moves by itself: each `poll` of either end carries what is due by the clock. Time
passes only as the given clock says, so with a `FakeClock` a `poll` never waits.
"""

import contextlib
import heapq
import itertools
import random
import threading
from collections.abc import Callable, Sequence

from headtail_fabric.clock import Clock
from headtail_fabric.link import LinkEstimate
from headtail_fabric.peer.client import ClientCore
from headtail_fabric.peer.events import Alternative, ClientEvent, ServerEvent
from headtail_fabric.peer.geometry import framed_bytes
from headtail_fabric.peer.ports import Offered, TrafficCount, to_everyone
from headtail_fabric.peer.server import ServerCore
from headtail_fabric.peer.traffic import MessageCount
from headtail_fabric.seal import Opener, Sealer
from headtail_fabric.wire import (
    Buffer,
    ErrorCode,
    Frames,
    Hints,
    TensorInfo,
    Timings,
    WireError,
)

Fault = Callable[[list[Buffer]], int]
"""How many copies of a message arrive: 0 lost, 1 as it should be, 2 duplicated."""


class MemoryLink:
    """A link between memory clients and the memory server they were made with.

    `delay_s` is one way. `fault_up` and `fault_down` decide the fate of each message.
    """

    def __init__(self, clock: Clock, *, delay_s: float = 0.0) -> None:
        self.clock = clock
        self.delay_s = delay_s
        self.fault_up: Fault = _deliver
        self.fault_down: Fault = _deliver
        self.server: MemoryServer | None = None
        self._clients: dict[bytes, MemoryClient] = {}
        self.lock = threading.RLock()
        self._up = True
        self._on_the_way: list[tuple[float, int, bool, bytes, list[Buffer]]] = []
        self._sequence = itertools.count()
        self._routes = itertools.count()

    def cut(self, reason: str = "the connection broke") -> None:
        """Break every connection: what is on the way is lost, both ends are told."""
        self._up = False
        self._on_the_way.clear()
        for client in self._clients.values():
            client.core.link_down(reason)

    def heal(self) -> None:
        """Connections come back, each under a new route."""
        self._up = True
        clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            self.attach(client)

    def attach(self, client: "MemoryClient") -> None:
        """Connect a client, if the link is up."""
        client.route = next(self._routes).to_bytes(4, "big")
        self._clients[client.route] = client
        if self._up and self.server is not None:
            client.core.link_up(self.clock.now())

    def carry(self) -> None:
        """Move everything that is due by now, until nothing moves."""
        with self.lock:
            moved = True
            while moved:
                self._collect()
                moved = self._deliver_due()
                self._run_timers()

    def _collect(self) -> None:
        now = self.clock.now()
        for route, client in self._clients.items():
            for frames in client.core.to_send(now):
                if self._up:
                    client.count.left(framed_bytes(frames, curve=False))
                    self._post(up=True, route=route, frames=frames, fault=self.fault_up)
        if self.server is not None:
            for route, frames in self.server.core.to_send(now):
                if self._up:
                    self.server.count.left(framed_bytes(frames, curve=False))
                    self._post(up=False, route=route, frames=frames, fault=self.fault_down)

    def _post(self, *, up: bool, route: bytes, frames: list[Buffer], fault: Fault) -> None:
        for _ in range(fault(frames)):
            arrives_at = self.clock.now() + self.delay_s
            entry = (arrives_at, next(self._sequence), up, route, frames)
            heapq.heappush(self._on_the_way, entry)

    def _deliver_due(self) -> bool:
        now, moved = self.clock.now(), False
        while self._on_the_way and self._on_the_way[0][0] <= now:
            _, _, up, route, frames = heapq.heappop(self._on_the_way)
            moved = True
            client = self._clients.get(route)
            if up and self.server is not None:
                self.server.count.came(framed_bytes(frames, curve=False))
                self.server.core.receive(route, "" if client is None else client.user, frames, now)
            elif not up and client is not None:
                client.count.came(framed_bytes(frames, curve=False))
                with contextlib.suppress(WireError):  # counted by a real shell, and dropped
                    client.core.receive(frames, now)
        return moved

    def _run_timers(self) -> None:
        now = self.clock.now()
        cores: list[ClientCore | ServerCore] = [c.core for c in self._clients.values()]
        if self.server is not None:
            cores.append(self.server.core)
        for core in cores:
            due_at = core.next_timer()
            if due_at is not None and due_at <= now:
                core.on_timer(now)


class MemoryClient:
    """A `ClientPort` on a `MemoryLink`; `user` is what the link authenticates it as."""

    def __init__(
        self,
        link: MemoryLink,
        *,
        name: str = "device",
        user: str = "",
        bundles: Sequence[bytes] = (),
        can_push: bool = False,
        sealer: Sealer | None = None,
        seed: int = 0,
    ) -> None:
        source = random.Random(seed)  # noqa: S311 - repeatable on purpose
        self.core = ClientCore(
            session=source.randbytes(16),
            name=name,
            agent="memory",
            bundles=bundles,
            can_push=can_push,
            curve=False,
            random=source.random,
            sealer=sealer,
        )
        self.user = user
        self.count = MessageCount()
        self.route = b""
        self._link = link
        link.attach(self)

    def __repr__(self) -> str:
        return f"MemoryClient({self.core!r})"

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
        with self._link.lock:
            return self.core.submit(
                bundle=bundle,
                cut=cut,
                tensors=tensors,
                payloads=payloads,
                deadline_s=deadline_s,
                now=self._link.clock.now(),
                trace=trace,
            )

    def cancel(self, request_id: int) -> None:
        with self._link.lock:
            self.core.cancel(request_id)

    def announce_tail(self, *, bundle: bytes, cut: str, due_s: float) -> None:
        with self._link.lock:
            self.core.announce_tail(bundle=bundle, cut=cut, due_s=due_s)

    def free_window(self) -> int:
        self._link.carry()
        with self._link.lock:
            return self.core.free_window()

    def poll(self, timeout_s: float) -> ClientEvent | None:
        self._link.carry()
        with self._link.lock:
            return self.core.next_event()

    def push_bundle(self, digest: bytes, packed: Buffer) -> None:
        with self._link.lock:
            self.core.push_bundle(digest, packed)

    def estimate(self) -> LinkEstimate:
        with self._link.lock:
            return self.core.estimate(self._link.clock.now())

    def hints(self) -> Hints | None:
        """What the server last said of its load in this session."""
        return self.core.hints

    def traffic(self) -> TrafficCount:
        return self.count.traffic_at_client(None, retries=self.core.retries)

    def close(self, timeout_s: float = 1.0) -> None:
        with self._link.lock:
            self.core.close()
        self._link.carry()


class MemoryServer:
    """A `ServerPort` on a `MemoryLink`. Making a second one on the same link is a restart."""

    def __init__(
        self,
        link: MemoryLink,
        *,
        name: str = "edge",
        window: int = 16,
        heartbeat_s: float = 1.0,
        opener: Opener | None = None,
        seed: int = 1,
    ) -> None:
        self.core = ServerCore(
            boot=random.Random(seed).randbytes(16),  # noqa: S311 - repeatable on purpose
            name=name,
            agent="memory",
            window=window,
            heartbeat_s=heartbeat_s,
            opener=opener,
        )
        self.count = MessageCount()
        self._link = link
        restarted = link.server is not None
        if restarted:
            link.cut("the server restarted")
        link.server = self
        link.heal()

    def __repr__(self) -> str:
        return f"MemoryServer({self.core!r})"

    @property
    def endpoint(self) -> str:
        return "memory"

    def poll(self, timeout_s: float) -> ServerEvent | None:
        self._link.carry()
        with self._link.lock:
            return self.core.next_event()

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
        with self._link.lock:
            self.core.respond(
                session,
                request_id,
                tensors=tensors,
                payloads=payloads,
                timings=timings,
                hints=hints,
                now=self._link.clock.now(),
            )

    def busy(
        self,
        session: bytes,
        request_id: int,
        *,
        retry_after_s: float,
        hints: Hints,
        instead: Alternative | None = None,
    ) -> None:
        with self._link.lock:
            self.core.busy(
                session, request_id, retry_after_s=retry_after_s, hints=hints, instead=instead
            )

    def advertise(self, hints: Hints) -> None:
        with self._link.lock:
            self.core.advertise(hints)

    def fail(self, session: bytes, request_id: int, code: ErrorCode, message: str) -> None:
        with self._link.lock:
            self.core.fail(session, request_id, code, message)

    def need_bundle(self, session: bytes, digest: bytes, offset: int) -> None:
        with self._link.lock:
            self.core.need_bundle(session, digest, offset)

    def refuse_bundle(self, session: bytes, digest: bytes, reason: str) -> None:
        with self._link.lock:
            self.core.refuse_bundle(session, digest, reason)

    def serve_bundles(self, digests: Sequence[bytes], offered: Offered = to_everyone) -> None:
        with self._link.lock:
            self.core.serve_bundles(digests, offered)

    def drop_session(self, session: bytes, reason: str) -> None:
        with self._link.lock:
            self.core.drop_session(session, reason)

    def traffic(self) -> TrafficCount:
        return self.count.traffic_at_server(None)

    def close(self, timeout_s: float = 1.0) -> None:
        with self._link.lock:
            self.core.close("the server is shutting down")
        self._link.carry()


def _deliver(_: list[Buffer]) -> int:
    return 1
