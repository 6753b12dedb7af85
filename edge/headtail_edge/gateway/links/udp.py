"""Sealed packets in datagrams: the one link that wakes no radio longer than it must."""

import errno
import socket
from collections.abc import Hashable, Iterator
from contextlib import suppress
from typing import Final

import zmq

from headtail_edge.gateway.config import UdpConfig
from headtail_edge.gateway.envelope import OVERHEAD
from headtail_edge.gateway.links.link import Incoming
from headtail_edge.gateway.links.sealed import Sealed
from headtail_edge.gateway.messages import MAX_BYTES
from headtail_fabric.peer.errors import BindError

_READ_AT_ONCE: Final = 64


class UdpLink:
    """A `Link`. A node is answered where its last good packet came from. Raises BindError."""

    def __init__(self, config: UdpConfig, sealed: Sealed) -> None:
        self._sealed = sealed
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._socket.bind((config.host, config.port))
        except OSError as error:
            self._socket.close()
            raise bind_error("udp", config.host, config.port, error) from None
        self._socket.setblocking(False)
        host, port = self._socket.getsockname()
        self.endpoint = f"udp://{host}:{port}"

    def watch(self, poller: zmq.Poller) -> None:
        poller.register(self._socket.fileno(), zmq.POLLIN)

    def read(self) -> Iterator[Incoming]:
        for _ in range(_READ_AT_ONCE):
            try:
                packet, address = self._socket.recvfrom(MAX_BYTES + OVERHEAD)
            except BlockingIOError:
                return
            except OSError:  # an answer to somebody who is gone came back
                continue
            opened = self._sealed.open(packet)
            if opened is not None:
                yield Incoming(address, *opened)

    def send(self, address: Hashable, node: str, data: bytes) -> None:
        assert isinstance(address, tuple)
        packet = self._sealed.seal(node, data)
        if packet is not None:
            with suppress(OSError):
                self._socket.sendto(packet, address)

    def close(self) -> None:
        self._socket.close()


def bind_error(kind: str, host: str, port: int, error: OSError) -> BindError:
    """What keeps a socket from listening, in words."""
    why = {
        errno.EADDRINUSE: "the port is in use",
        errno.EACCES: "this user may not bind there",
        errno.EADDRNOTAVAIL: "this machine has no such address",
    }.get(error.errno or 0, error.strerror or str(error))
    return BindError(f"can't bind {kind}://{host}:{port}: {why}")
