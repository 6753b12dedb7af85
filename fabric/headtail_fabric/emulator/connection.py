"""One connection through an emulated link: two sockets, and a lane each way between them."""

import errno
import socket
import struct
from collections import deque
from typing import Final

from headtail_fabric.emulator.conditions import Direction
from headtail_fabric.emulator.shaper import Content, Signal

WINDOW_BYTES: Final = 4 * 1024 * 1024
"""What one lane holds at most, on the way and unread by its receiver: TCP's window, in effect."""

_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)


class Lane:
    """What goes one way: from `source` through the link to `sink`."""

    def __init__(self, direction: Direction, source: socket.socket, sink: socket.socket) -> None:
        self.direction = direction
        self.source = source
        self.sink = sink
        self.is_open = False
        """The source may be read: its end of the connection has been established."""
        self.is_waiting = False
        """There is something to read, and it waits for its turn."""
        self.is_ended = False
        """The source gives no more."""
        self.is_finished = False
        """The sink was told so."""
        self.is_broken = False
        """The sink takes no more."""
        self._under_way_bytes = 0
        self._unwritten: deque[Content] = deque()

    def __repr__(self) -> str:
        return f"Lane({self.direction.value}, under_way_bytes={self._under_way_bytes})"

    @property
    def has_window(self) -> bool:
        return self._under_way_bytes < WINDOW_BYTES

    @property
    def wants_read(self) -> bool:
        return self.is_open and self.has_window and not self.is_waiting and not self.is_ended

    @property
    def wants_write(self) -> bool:
        return bool(self._unwritten)

    def read(self, limit_bytes: int) -> bytes:
        """What the source has, empty at its end. Raises BlockingIOError, OSError."""
        data = self.source.recv(limit_bytes)
        self._under_way_bytes += len(data)
        return data

    def arrive(self, content: Content) -> None:
        """Bytes, or the END, have come through the link."""
        if self.is_broken:
            self._count_out(content)
        else:
            self._unwritten.append(content)

    def write(self) -> int:
        """Hand the sink what it takes; how many bytes that was. Raises OSError if it is broken."""
        written_bytes = 0
        while self._unwritten:
            content = self._unwritten[0]
            if isinstance(content, Signal):
                self.sink.shutdown(socket.SHUT_WR)
                self.is_finished = True
            else:
                try:
                    sent = self.sink.send(content)
                except BlockingIOError:
                    break
                self._under_way_bytes -= sent
                written_bytes += sent
                if sent < len(content):
                    self._unwritten[0] = content[sent:]
                    break
            self._unwritten.popleft()
        return written_bytes

    def break_off(self) -> None:
        """The sink is gone: what comes for it is thrown away."""
        self.is_broken = True
        while self._unwritten:
            self._count_out(self._unwritten.popleft())

    def _count_out(self, content: Content) -> None:
        if not isinstance(content, Signal):
            self._under_way_bytes -= len(content)


class Connection:
    """`near` is the socket of the side that connected, `far` ours to the target."""

    def __init__(self, number: int, near: socket.socket, far: socket.socket) -> None:
        self.number = number
        self.near = near
        self.far = far
        self.is_connecting = False
        self.is_over = False
        self.lanes = {
            Direction.UP: Lane(Direction.UP, near, far),
            Direction.DOWN: Lane(Direction.DOWN, far, near),
        }

    def __repr__(self) -> str:
        return f"Connection({self.number}, {list(self.lanes.values())})"

    @property
    def is_finished(self) -> bool:
        """Both ends have said that they are done, and were heard."""
        return all(lane.is_finished for lane in self.lanes.values())

    def connect(self, address: tuple[str, int]) -> None:
        """Begin to connect to the target. Raises OSError when it refuses at once."""
        self.is_connecting = True
        status = self.far.connect_ex(address)
        if status not in (0, errno.EINPROGRESS):
            raise OSError(status, "connect")

    def connected(self) -> None:
        """The target's socket has become writable. Raises OSError when it refused."""
        self.is_connecting = False
        status = self.far.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if status:
            raise OSError(status, "connect")
        self.lanes[Direction.DOWN].is_open = True

    def close(self, *, reset: bool) -> None:
        """Let go of both sockets; with `reset` each peer sees that it was cut."""
        self.is_over = True
        for end in (self.near, self.far):
            if reset:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            end.close()
