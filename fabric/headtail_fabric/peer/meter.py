"""What a ZeroMQ socket does underneath: its connections' fate, and their bytes by the kernel.

libzmq tells through a monitor socket which file descriptors it uses. On Linux, TCP_INFO
(linux/tcp.h, struct tcp_info) then says how many bytes each really carried: handshakes, heartbeats
and framing included, each byte once however often TCP had to send it. A duplicate of the
descriptor is held while the connection lasts, so that its last bytes are counted too.
"""

import os
import socket as sockets
import struct
import sys
import threading
from dataclasses import dataclass
from typing import Final

import zmq
from zmq.utils.monitor import recv_monitor_message

_TCP_INFO_BYTES: Final = 256
_BYTES_RECEIVED_AT: Final = 128
_BYTES_SENT_AT: Final = 200
_BYTES_RETRANSMITTED_AT: Final = 208
_OPENED: Final = frozenset({zmq.Event.CONNECTED, zmq.Event.ACCEPTED})
_CLOSED: Final = frozenset({zmq.Event.DISCONNECTED, zmq.Event.CLOSED})
_MONITORED: Final = (
    zmq.Event.CONNECTED
    | zmq.Event.ACCEPTED
    | zmq.Event.DISCONNECTED
    | zmq.Event.CLOSED
    | zmq.Event.HANDSHAKE_SUCCEEDED
    | zmq.Event.HANDSHAKE_FAILED_AUTH
    | zmq.Event.HANDSHAKE_FAILED_PROTOCOL
    | zmq.Event.HANDSHAKE_FAILED_NO_DETAIL
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportEvent:
    """One event of the monitor; `value` is a descriptor, an errno or a ZAP status by its kind."""

    kind: zmq.Event
    value: int


class SocketMeter:
    """Watches one ZeroMQ socket. `drain` from the socket's thread, `socket_bytes` from any."""

    def __init__(self, socket: "zmq.Socket[bytes]") -> None:
        self._socket = socket
        self.monitor = socket.get_monitor_socket(_MONITORED)
        self._lock = threading.Lock()
        self._open: dict[int, sockets.socket] = {}
        self._sent = 0
        self._received = 0
        self._known = sys.platform == "linux"

    def drain(self) -> list[TransportEvent]:
        """All events that have happened since the last call."""
        events = []
        while self.monitor.poll(0):
            message = recv_monitor_message(self.monitor)
            event = TransportEvent(
                kind=zmq.Event(int(message["event"])), value=int(message["value"])
            )
            if self._known:
                self._follow(event)
            events.append(event)
        return events

    def socket_bytes(self) -> tuple[int, int] | None:
        """Bytes sent and received at the TCP sockets so far; None where the kernel won't tell."""
        if not self._known:
            return None
        with self._lock:
            counts = [_tcp_bytes(duplicate) for duplicate in self._open.values()]
            return (
                self._sent + sum(sent for sent, _ in counts),
                self._received + sum(received for _, received in counts),
            )

    def close(self) -> None:
        """Stop watching; to be called after `drain` and before the socket is closed."""
        self._socket.disable_monitor()
        self.monitor.close(linger=0)
        with self._lock:
            for fd in list(self._open):
                self._settle(fd)

    def _follow(self, event: TransportEvent) -> None:
        with self._lock:
            if event.kind in _OPENED:
                self._settle(event.value)
                try:
                    duplicate = sockets.socket(fileno=os.dup(event.value))
                except OSError:
                    return  # It has closed again already.
                if duplicate.family in (sockets.AF_INET, sockets.AF_INET6):
                    self._open[event.value] = duplicate
                else:
                    duplicate.close()
            elif event.kind in _CLOSED:
                self._settle(event.value)

    def _settle(self, fd: int) -> None:
        duplicate = self._open.pop(fd, None)
        if duplicate is not None:
            sent, received = _tcp_bytes(duplicate)
            self._sent += sent
            self._received += received
            duplicate.close()


def _tcp_bytes(connection: sockets.socket) -> tuple[int, int]:
    try:
        info = connection.getsockopt(sockets.IPPROTO_TCP, sockets.TCP_INFO, _TCP_INFO_BYTES)
    except OSError:
        return 0, 0
    if len(info) < _BYTES_RETRANSMITTED_AT + 8:  # Linux before 4.19
        return 0, 0
    (received,) = struct.unpack_from("=Q", info, _BYTES_RECEIVED_AT)
    (sent,) = struct.unpack_from("=Q", info, _BYTES_SENT_AT)
    (retransmitted,) = struct.unpack_from("=Q", info, _BYTES_RETRANSMITTED_AT)
    return sent - retransmitted, received
