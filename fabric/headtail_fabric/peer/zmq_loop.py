"""The part that both ZeroMQ shells share: one socket, its meter, and waiting for either."""

import threading
from collections.abc import Callable, Iterator
from typing import Final

import zmq

from headtail_fabric.peer.geometry import framed_bytes
from headtail_fabric.peer.meter import SocketMeter, TransportEvent
from headtail_fabric.peer.traffic import MessageCount
from headtail_fabric.peer.wakeup import Wakeup
from headtail_fabric.wire import Buffer

_READ_AT_ONCE: Final = 64
_TEND_EVERY_S: Final = 0.02
_SURELY_EMPTY_S: Final = 0.0001
_LONGEST_BACKLOG_S: Final = 1.0
# Plain integers: combining pyzmq's flag enums costs as much as sending a small frame.
_NOW: Final = int(zmq.NOBLOCK)
_NOW_AND_MORE: Final = int(zmq.NOBLOCK) | int(zmq.SNDMORE)
_LONGEST_WAIT_S: Final = 1.0


class ZmqLoop:
    """A context with one socket. Only the thread that calls `read`, `send` and `wait` may work it
    at a time; `wake` and `socket_bytes` are for any thread.

    `attach` binds or connects the fresh socket; what it raises is raised after cleaning up.
    """

    def __init__(
        self, kind: int, *, curve: bool, attach: Callable[["zmq.Socket[bytes]"], None]
    ) -> None:
        self._curve = curve
        self.context = zmq.Context()
        self.socket: zmq.Socket[bytes] = self.context.socket(kind)
        try:
            self._meter = SocketMeter(self.socket)
            attach(self.socket)
        except BaseException:
            self.context.destroy(linger=0)
            raise
        self._wakeup = Wakeup()
        self._poller = zmq.Poller()
        self._poller.register(self.socket, zmq.POLLIN)
        self._poller.register(self._meter.monitor, zmq.POLLIN)
        self._poller.register(self._wakeup.fileno(), zmq.POLLIN)
        self._wants_out = False
        self._worker = 0
        self._events: list[TransportEvent] = []
        self._tend_at = 0.0
        self._drained_at = 0.0
        self._saturated_since: float | None = None
        self.count = MessageCount()

    def read(self, now: float) -> Iterator[list[zmq.Frame]]:
        """Multipart messages that are there, up to a limit so that nothing else starves.

        Right after it came up empty it is not tried again: `wait` will tell.
        """
        if now - self._drained_at < _SURELY_EMPTY_S:
            return
        receive = self.socket.recv
        for _ in range(_READ_AT_ONCE):
            try:
                part = receive(_NOW, copy=False)
            except zmq.Again:
                self._drained_at = now
                return
            parts = [part]
            # Not `recv_multipart`: it asks the socket whether more follows, which costs as much
            # as taking a frame; the frame itself knows. All of a message comes at once.
            while part.more:
                part = receive(_NOW, copy=False)
                parts.append(part)
            yield parts

    def count_received(self, frames: list[Buffer]) -> None:
        """Count a message that `read` gave by its frames, without what only ROUTER added."""
        self.count.came(framed_bytes(frames, curve=self._curve))

    def send(self, frames: list[Buffer], *, route: bytes | None = None) -> bool:
        """Hand a message to the socket; False when its queue is full.

        Raises zmq.ZMQError with EHOSTUNREACH for a route that is gone.
        """
        try:
            if route is not None:
                self.socket.send(route, _NOW_AND_MORE)
            for frame in frames[:-1]:
                self.socket.send(frame, _NOW_AND_MORE, copy=False)
            self.socket.send(frames[-1], _NOW, copy=False)
        except zmq.Again:
            # ZeroMQ takes a message whole or not at all: only its first frame can be refused.
            return False
        self.count.left(framed_bytes(frames, curve=self._curve))
        return True

    def must_tend(self, now: float, *, came: int) -> bool:
        """Whether timers and transport events are to be looked at now, after `came` messages.

        Not while there may be more to read: the heartbeat that a timer waits for, or a goodbye,
        may lie among it. But at least once a second, or steady traffic would put it off for good,
        and not for every message.
        """
        if came < _READ_AT_ONCE:
            self._saturated_since = None
        elif self._saturated_since is None:
            self._saturated_since = now
            return False
        elif now - self._saturated_since < _LONGEST_BACKLOG_S:
            return False
        if now < self._tend_at:
            return False
        self._tend_at = now + _TEND_EVERY_S
        return True

    def take_events(self) -> list[TransportEvent]:
        """Transport events since the last call."""
        events, self._events = self._events, []
        return events

    def wait(self, seconds: float, *, for_room: bool) -> None:
        """Sleep until a message, a transport event or a wake-up comes, at most `seconds`; with
        `for_room` also until the socket takes messages again."""
        self._worker = threading.get_ident()
        if for_room is not self._wants_out:
            self._wants_out = for_room
            self._poller.modify(self.socket, zmq.POLLIN | (zmq.POLLOUT if for_room else 0))
        # Rounded up: waking a little early would only mean a turn for nothing.
        timeout_ms = int(min(max(seconds, 0.0), _LONGEST_WAIT_S) * 1000 + 0.999)
        silent = True
        for ready, _ in self._poller.poll(timeout_ms):
            if ready is self.socket:
                self._drained_at = 0.0
                silent = False
            elif ready is self._meter.monitor:
                self._events += self._meter.drain()
            else:
                self._wakeup.clear()
        if silent or self._events:
            self._tend_at = 0.0

    def wake(self) -> None:
        """End another thread's `wait`; does nothing in the thread that waits."""
        if threading.get_ident() != self._worker:
            self._wakeup.wake()

    def socket_bytes(self) -> tuple[int, int] | None:
        """Bytes sent and received at the TCP sockets; None where the kernel won't tell."""
        return self._meter.socket_bytes()

    def close(self, linger_s: float) -> None:
        """Send what is queued for up to `linger_s`, then let go of the socket."""
        self._meter.drain()
        self._meter.close()
        self.socket.close(linger=int(linger_s * 1000))
        self.context.term()
        self._wakeup.close()
