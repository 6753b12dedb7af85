"""The connections of an emulated link: reads into the shapers, writes what comes out of them."""

import logging
import random
import socket
from collections import deque
from typing import Final

from headtail_fabric.clock import Clock
from headtail_fabric.emulator.address import LoopbackAddress
from headtail_fabric.emulator.conditions import Direction
from headtail_fabric.emulator.connection import Connection, Lane
from headtail_fabric.emulator.shaper import Arrival, Shaper, Signal
from headtail_fabric.emulator.trace import LinkTrace
from headtail_fabric.emulator.watcher import READ, WRITE, Watcher
from headtail_fabric.logs import fields

_READS_AT_ONCE: Final = 64

Owner = tuple[Connection, Lane] | None

log = logging.getLogger(__name__)


class Switchboard:
    """For one thread: that of the proxy.

    A connection begins like TCP's: the target is called when the OPEN has come up the link, and the
    near side is read when it has come back. A socket that has something to read waits for its turn,
    a few packets each; while the link has no room it is not read, so its sender has to wait.
    """

    def __init__(
        self,
        trace: LinkTrace,
        target: LoopbackAddress,
        *,
        watcher: Watcher[Owner],
        seed: int,
        clock: Clock,
        now: float,
    ) -> None:
        self._target = target
        self._watcher = watcher
        self._clock = clock
        self._connections: dict[int, Connection] = {}
        self._waiting: dict[Direction, deque[tuple[Connection, Lane]]] = {}
        self._shapers: dict[Direction, Shaper] = {}
        for direction in Direction:
            draw = random.Random(f"{seed} {direction.value}").random  # noqa: S311 - repeatable
            self._shapers[direction] = Shaper(trace, direction, draw=draw, now=now)
            self._waiting[direction] = deque()
        self.accepted = 0
        self.delivered_bytes = dict.fromkeys(Direction, 0)

    def __len__(self) -> int:
        """Connections that are not over."""
        return len(self._connections)

    @property
    def stalls(self) -> int:
        """Losses so far, each way."""
        return sum(shaper.stalls for shaper in self._shapers.values())

    def next_at(self) -> float:
        """When there is something to do if no socket becomes ready before."""
        times = [shaper.next_arrival_at for shaper in self._shapers.values()]
        times += [self._shapers[way].room_at for way, waiting in self._waiting.items() if waiting]
        return min(times)

    def admit(self, near: socket.socket, far: socket.socket) -> None:
        """A connection has come; `far` is a fresh socket for its way to the target."""
        self.accepted += 1
        connection = Connection(self.accepted, near, far)
        self._connections[connection.number] = connection
        self._send(connection, Direction.UP, Signal.OPEN)

    def move(self, now: float) -> None:
        """Deliver what has come through by now, and read what the link has room for."""
        for direction, shaper in self._shapers.items():
            for arrival in shaper.arrived(now):
                self._arrive(arrival, direction)
            self._read_waiting(direction, now)

    def serve(self, connection: Connection, lane: Lane, events: int) -> None:
        """The socket that is `lane`'s source is ready."""
        if connection.is_over:
            return  # by an event before this one
        if connection.is_connecting and lane.source is connection.far:
            self._connected(connection)
        elif events & WRITE:
            self._write(connection, connection.lanes[lane.direction.back])
        if events & READ and lane.wants_read:
            lane.is_waiting = True
            self._waiting[lane.direction].append((connection, lane))
        self._watch(connection)

    def cut(self, now: float) -> None:
        """Reset all connections; nothing is on the way any more."""
        for connection in list(self._connections.values()):
            self._drop(connection, reset=True)
        for shaper in self._shapers.values():
            shaper.clear(now)

    def _send(self, connection: Connection, direction: Direction, content: bytes | Signal) -> None:
        self._shapers[direction].send(connection.number, content, self._clock.now())

    def _arrive(self, arrival: Arrival, direction: Direction) -> None:
        connection = self._connections.get(arrival.flow)
        if connection is None:
            return
        if arrival.content is Signal.RESET:
            self._drop(connection, reset=True)
        elif arrival.content is not Signal.OPEN:
            lane = connection.lanes[direction]
            lane.arrive(arrival.content)
            self._write(connection, lane)
        elif direction is Direction.DOWN:
            connection.lanes[Direction.UP].is_open = True
        else:
            self._connect(connection)
        self._watch(connection)

    def _connect(self, connection: Connection) -> None:
        try:
            connection.connect((self._target.host, self._target.port))
        except OSError as error:
            self._refused(connection, error)

    def _connected(self, connection: Connection) -> None:
        try:
            connection.connected()
        except OSError as error:
            self._refused(connection, error)
        else:
            self._send(connection, Direction.DOWN, Signal.OPEN)

    def _refused(self, connection: Connection, error: OSError) -> None:
        log.info("target refuses", extra=fields(target=self._target, reason=error.strerror))
        connection.is_connecting = False
        self._broken(connection, connection.lanes[Direction.UP])

    def _read_waiting(self, direction: Direction, now: float) -> None:
        waiting, shaper = self._waiting[direction], self._shapers[direction]
        for _ in range(_READS_AT_ONCE):
            if not waiting or shaper.room_at > now:
                return
            connection, lane = waiting.popleft()
            lane.is_waiting = False
            if connection.is_over or lane.is_ended:
                continue
            limit_bytes = shaper.turn_bytes(now)
            if self._read(connection, lane, limit_bytes) == limit_bytes and lane.has_window:
                lane.is_waiting = True  # there is probably more
                waiting.append((connection, lane))
            self._watch(connection)

    def _read(self, connection: Connection, lane: Lane, limit_bytes: int) -> int:
        try:
            data = lane.read(limit_bytes)
        except BlockingIOError:
            return 0
        except OSError:
            self._broken(connection, connection.lanes[lane.direction.back])
            return 0
        lane.is_ended = not data
        self._send(connection, lane.direction, data or Signal.END)
        return len(data)

    def _write(self, connection: Connection, lane: Lane) -> None:
        try:
            self.delivered_bytes[lane.direction] += lane.write()
        except OSError:
            self._broken(connection, lane)
        if connection.is_finished:
            self._drop(connection, reset=False)

    def _broken(self, connection: Connection, lane: Lane) -> None:
        """`lane`'s sink is gone; the other side learns it through the link."""
        if lane.is_broken:
            return
        lane.break_off()
        back = connection.lanes[lane.direction.back]
        back.is_ended = True
        self._send(connection, back.direction, Signal.RESET)

    def _drop(self, connection: Connection, *, reset: bool) -> None:
        self._watcher.leave(connection.near)
        self._watcher.leave(connection.far)
        connection.close(reset=reset)
        del self._connections[connection.number]
        for shaper in self._shapers.values():
            shaper.forget(connection.number)

    def _watch(self, connection: Connection) -> None:
        """Wait for what either socket is wanted for."""
        if connection.is_over:
            return
        for lane in connection.lanes.values():
            is_called = connection.is_connecting and lane.source is connection.far
            writes = is_called or connection.lanes[lane.direction.back].wants_write
            events = (READ if lane.wants_read else 0) | (WRITE if writes else 0)
            self._watcher.watch(lane.source, events, (connection, lane))
