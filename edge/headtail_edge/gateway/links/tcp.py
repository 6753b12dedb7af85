"""Sealed packets over TCP, or over TLS: COBS packets in a stream."""

import socket
import ssl
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Final

import zmq

from headtail_edge.gateway.cobs import Decoder, encode
from headtail_edge.gateway.config import TcpConfig
from headtail_edge.gateway.envelope import OVERHEAD
from headtail_edge.gateway.links.link import Incoming
from headtail_edge.gateway.links.sealed import Sealed
from headtail_edge.gateway.links.udp import bind_error
from headtail_edge.gateway.messages import MAX_BYTES
from headtail_fabric.errors import ConfigError

_CHUNK: Final = 16_384
_CHUNKS_AT_ONCE: Final = 8
_MAX_UNSENT: Final = 65_536
_BACKLOG: Final = 64


class CertificateError(ConfigError):
    """The certificate or its key can't be used. Name a PEM file of each, that belong together and
    that this user may read."""


class TcpLink:
    """A `Link`. Raises BindError, CertificateError."""

    def __init__(self, config: TcpConfig, sealed: Sealed) -> None:
        self._sealed = sealed
        self._tls = _tls(config)
        self._most = config.max_connections
        self._connections: OrderedDict[int, _Connection] = OrderedDict()
        self._poller: zmq.Poller | None = None
        self._listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._listener.bind((config.host, config.port))
            self._listener.listen(_BACKLOG)
        except OSError as error:
            self._listener.close()
            raise bind_error("tcp", config.host, config.port, error) from None
        self._listener.setblocking(False)
        host, port = self._listener.getsockname()
        self.endpoint = f"{'tls' if self._tls else 'tcp'}://{host}:{port}"

    def watch(self, poller: zmq.Poller) -> None:
        self._poller = poller
        poller.register(self._listener.fileno(), zmq.POLLIN)

    def read(self) -> Iterator[Incoming]:
        self._accept()
        for number, connection in list(self._connections.items()):
            packets = connection.read()
            if packets is None:
                self._drop(number)
                continue
            for packet in packets:
                opened = self._sealed.open(packet)
                if opened is not None:
                    # Heard: the last to make room for others.
                    self._connections.move_to_end(number)
                    yield Incoming(number, *opened)

    def send(self, address: Hashable, node: str, data: bytes) -> None:
        assert isinstance(address, int)
        connection, packet = self._connections.get(address), self._sealed.seal(node, data)
        if connection is None or packet is None:
            return
        if not connection.write(encode(packet)):
            self._drop(address)

    def close(self) -> None:
        for number in list(self._connections):
            self._drop(number)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                accepted, _ = self._listener.accept()
            except OSError:  # nobody waits, or somebody hung up before
                return
            if len(self._connections) >= self._most:
                self._drop(next(iter(self._connections)))
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                accepted = self._tls.wrap_socket(
                    accepted, server_side=True, do_handshake_on_connect=False
                )
            connection = _Connection(accepted)
            self._connections[connection.number] = connection
            if self._poller is not None:
                self._poller.register(connection.number, zmq.POLLIN)

    def _drop(self, number: int) -> None:
        connection = self._connections.pop(number)
        if self._poller is not None:
            self._poller.unregister(number)
        connection.close()


class _Connection:
    """One open connection; `number` is its file descriptor."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._decoder = Decoder(max_bytes=MAX_BYTES + OVERHEAD)
        self._unsent = b""
        self.number = connected.fileno()

    def read(self) -> list[bytes] | None:
        """Packets that have come; None when the connection is over."""
        packets: list[bytes] = []
        try:
            self._flush()
            for _ in range(_CHUNKS_AT_ONCE):
                data = self._socket.recv(_CHUNK)
                if not data:
                    return packets or None
                packets += self._decoder.receive(data)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return packets
        except OSError:
            return None
        return packets

    def write(self, data: bytes) -> bool:
        """False when the connection is over, or takes nothing any more."""
        self._unsent += data
        try:
            self._flush()
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return len(self._unsent) <= _MAX_UNSENT
        except OSError:
            return False
        return True

    def close(self) -> None:
        self._socket.close()

    def _flush(self) -> None:
        while self._unsent:
            self._unsent = self._unsent[self._socket.send(self._unsent) :]


def _tls(config: TcpConfig) -> ssl.SSLContext | None:
    certificate, key = config.tls_certificate, config.tls_key
    if (certificate is None) != (key is None):
        raise CertificateError("tls_certificate and tls_key go together")
    if certificate is None or key is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise CertificateError(f"{certificate}: {error}") from None
    return context
