"""The core with a thread for each edge, that listens to its port and leaves what it hears."""

import logging
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Final

from headtail_fabric.clock import Clock
from headtail_fabric.fleet.core import FleetCore, Member
from headtail_fabric.link import LinkEstimate
from headtail_fabric.logs import fields
from headtail_fabric.peer.events import ClientEvent, Disconnected
from headtail_fabric.peer.ports import TrafficCount
from headtail_fabric.wire import Buffer, Frames, TensorInfo

log = logging.getLogger(__name__)

_LISTEN_S: Final = 0.2
_SETTLE_S: Final = 0.25

Open = Callable[[str], Member]
"""From an edge's address to its port."""


class FleetClient:
    """A `ClientPort` over several edges.

    `opens` has for each edge what makes its port; `located` gives an edge its address, at the start
    or whenever it has another one. Raises what the openers raise.
    """

    def __init__(self, opens: Sequence[Open], *, bundle: bytes, clock: Clock) -> None:
        self._opens = opens
        self._clock = clock
        self._core = FleetCore(len(opens), bundle=bundle)
        self._addresses: list[str] = [""] * len(opens)
        self._lock = threading.RLock()
        self._heard: queue.SimpleQueue[tuple[int, Member, ClientEvent]] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._threads: dict[int, threading.Thread] = {}
        self._settled_at = float("-inf")
        self._gone = TrafficCount()
        self._ends: list[Callable[[], None]] = []

    def __repr__(self) -> str:
        with self._lock:
            return f"FleetClient({self._core!r})"

    def located(self, edge: int, address: str) -> None:
        """Edge number `edge` is found at `address`; nothing happens if that is known."""
        with self._lock:
            if self._addresses[edge] == address or self._closing.is_set():
                return
            self._addresses[edge] = address
            member = self._opens[edge](address)
            before = self._core.seat(edge, member, self._clock.now())
            listened = self._threads.get(edge)
            thread = threading.Thread(
                target=self._listen, args=(edge, member), name=f"edge-{edge + 1}", daemon=True
            )
            self._threads[edge] = thread
        thread.start()
        if before is not None and listened is not None:
            listened.join()  # a socket is for one thread at a time
            self._gone = _sum((self._gone, before.traffic()))
            before.close()

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
            return self._core.submit(
                bundle=bundle,
                cut=cut,
                tensors=tensors,
                payloads=payloads,
                deadline_s=deadline_s,
                now=self._clock.now(),
                trace=trace,
            )

    def cancel(self, request_id: int) -> None:
        with self._lock:
            self._core.cancel(request_id)

    def announce_tail(self, *, bundle: bytes, cut: str, due_s: float) -> None:
        with self._lock:
            now = self._clock.now()
            self._core.announce_tail(bundle=bundle, cut=cut, due_s=due_s, now=now)

    def free_window(self) -> int:
        with self._lock:
            return self._core.free_window(self._clock.now())

    def poll(self, timeout_s: float) -> ClientEvent | None:
        until = self._clock.now() + timeout_s
        while True:
            with self._lock:
                now = self._clock.now()
                if now >= self._settled_at + _SETTLE_S:
                    self._settled_at = now
                    self._core.settle(now)
                event = self._core.next_event()
            if event is not None:
                return event
            wait_s = min(until - now, _SETTLE_S)
            if wait_s < 0:
                return None
            self._hear(wait_s)

    def push_bundle(self, digest: bytes, packed: Buffer) -> None:
        with self._lock:
            self._core.push_bundle(digest, packed)

    def estimate(self) -> LinkEstimate:
        with self._lock:
            return self._core.estimate()

    def traffic(self) -> TrafficCount:
        """Of all edges together."""
        with self._lock:
            members = [member for member in self._core.members if member is not None]
        return _sum((self._gone, *(member.traffic() for member in members)))

    def at_close(self, end: Callable[[], None]) -> None:
        """Something that gives addresses, to be ended first."""
        self._ends.append(end)

    def close(self, timeout_s: float = 1.0) -> None:
        if self._closing.is_set():
            return
        self._closing.set()
        for end in self._ends:
            end()
        for thread in self._threads.values():
            thread.join(2 * _LISTEN_S + timeout_s)
        for member in self._core.members:
            if member is not None:
                member.close(timeout_s)

    def _hear(self, wait_s: float) -> None:
        try:
            edge, member, event = self._heard.get(timeout=max(wait_s, 0.0))
        except queue.Empty:
            return
        with self._lock:
            # What a port that was replaced said before does not count any more.
            if self._core.members[edge] is member:
                self._core.on_event(edge, event, self._clock.now())

    def _listen(self, edge: int, member: Member) -> None:
        try:
            while not self._closing.is_set() and self._core.members[edge] is member:
                event = member.poll(_LISTEN_S)
                if event is not None:
                    self._heard.put((edge, member, event))
        except Exception as error:  # the thread's border: the other edges go on
            log.exception("the connection to an edge failed", extra=fields(edge=edge + 1))
            reason = f"{type(error).__name__}: {error}"
            self._heard.put((edge, member, Disconnected(reason=reason, final=True)))


def _sum(counts: Sequence[TrafficCount]) -> TrafficCount:
    def known(values: Sequence[int | None]) -> int | None:
        found = [value for value in values if value is not None]
        return sum(found) if found else None

    return TrafficCount(
        messages_up=sum(count.messages_up for count in counts),
        messages_down=sum(count.messages_down for count in counts),
        message_bytes_up=sum(count.message_bytes_up for count in counts),
        message_bytes_down=sum(count.message_bytes_down for count in counts),
        socket_bytes_up=known([count.socket_bytes_up for count in counts]),
        socket_bytes_down=known([count.socket_bytes_down for count in counts]),
        retries=sum(count.retries for count in counts),
    )
