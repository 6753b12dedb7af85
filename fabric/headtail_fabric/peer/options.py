"""Socket options and error mapping of the ZeroMQ shells, in one place.

libzmq sets TCP_NODELAY by itself. `ROUTER_HANDOVER` is left off on purpose: routes are given by
the ROUTER, never claimed by a client, and a session moves to its device's new connection by the
core, where it is checked against the device's key.
"""

import errno
from typing import Any, Final

import zmq

from headtail_fabric.peer.errors import BindError, ConnectError
from headtail_fabric.wire import MAX_TENSOR_BYTES

_HEARTBEAT_MS: Final = 2_000
_SILENT_MS: Final = 6_000


def common(socket: "zmq.Socket[bytes]") -> None:
    """Limits and liveness for both ends."""
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.MAXMSGSIZE, MAX_TENSOR_BYTES)
    socket.setsockopt(zmq.TCP_KEEPALIVE, 1)
    # ZMTP heartbeats find a half-open connection, where TCP alone would take hours.
    socket.setsockopt(zmq.HEARTBEAT_IVL, _HEARTBEAT_MS)
    socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, _SILENT_MS)
    socket.setsockopt(zmq.HEARTBEAT_TTL, _SILENT_MS)
    socket.setsockopt(zmq.HANDSHAKE_IVL, 5_000)
    socket.setsockopt(zmq.SNDHWM, 256)
    socket.setsockopt(zmq.RCVHWM, 256)


def client(socket: "zmq.Socket[bytes]") -> None:
    """A DEALER that queues nothing for a connection that does not stand."""
    common(socket)
    socket.setsockopt(zmq.IMMEDIATE, 1)
    socket.setsockopt(zmq.CONNECT_TIMEOUT, 3_000)
    socket.setsockopt(zmq.RECONNECT_IVL, 100)
    socket.setsockopt(zmq.RECONNECT_IVL_MAX, 2_000)


def server(socket: "zmq.Socket[bytes]") -> None:
    """A ROUTER that says when a message can't be delivered."""
    common(socket)
    socket.setsockopt(zmq.ROUTER_MANDATORY, 1)


def connect(socket: "zmq.Socket[bytes]", endpoint: str) -> None:
    """Connect, or raise ConnectError when the address can't even be tried."""
    try:
        socket.connect(endpoint)
    except zmq.ZMQError as error:
        raise ConnectError(f"{endpoint!r} is no address to connect to: {error}") from None


def bind(socket: "zmq.Socket[bytes]", endpoint: str) -> str:
    """Bind; returns the endpoint with the port that was really taken. Raises BindError."""
    try:
        socket.bind(endpoint)
    except zmq.ZMQError as error:
        why = {
            errno.EADDRINUSE: "the port is in use",
            errno.EACCES: "this user may not bind there",
            errno.EADDRNOTAVAIL: "this machine has no such address",
            errno.ENODEV: "this machine has no such address",
        }.get(error.errno or 0, str(error))
        raise BindError(f"can't bind {endpoint}: {why}", endpoint=endpoint) from None
    bound: Any = socket.getsockopt(zmq.LAST_ENDPOINT)
    return str(bound.rstrip(b"\0").decode())
