"""Packets over UDP, TCP, TLS or a serial line, sealed or as they are.

A carrier has `send(packet)`, `receive(timeout_ms)` that gives a packet or None, and `close()`.
"""

import select
import socket
import time

from .errors import LinkError
from .serial_link import Decoder, encode

_CHUNK = 1024
_SERIAL_STEP_MS = 5
_EAGAIN = 11


class PacketLink:
    """A carrier as a link: `ready`, `send(data)`, `poll(timeout_ms)`, `close()`.

    `sealer` and `opener` (see `envelope`) are None for a line that something else protects; they
    outlive the link, as their counters do.
    """

    ready = True

    def __init__(self, carrier, sealer=None, opener=None):
        self._carrier = carrier
        self._sealer = sealer
        self._opener = opener

    def send(self, data):
        self._carrier.send(data if self._sealer is None else self._sealer.seal(data))

    def poll(self, timeout_ms):
        """A message, or None; what does not open is noise or a forgery, and is dropped."""
        packet = self._carrier.receive(timeout_ms)
        if packet is None or self._opener is None:
            return packet
        try:
            return self._opener.open(packet)
        except LinkError:
            return None

    def close(self):
        self._carrier.close()


class Datagrams:
    """UDP: a packet is a datagram, and may get lost."""

    def __init__(self, host, port):
        self._address = _resolved(host, port, socket.SOCK_DGRAM)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._poller = select.poll()
        self._poller.register(self._socket, select.POLLIN)

    def send(self, packet):
        try:
            self._socket.sendto(packet, self._address)
        except OSError as error:
            raise LinkError(f"can't send ({error})") from None

    def receive(self, timeout_ms):
        if not self._poller.poll(timeout_ms):
            return None
        try:
            return self._socket.recvfrom(2048)[0]
        except OSError:  # the other side's port was closed, of which UDP tells later
            return None

    def close(self):
        self._socket.close()


class TcpStream:
    """COBS packets over TCP, or over TLS where `ca` holds a certificate (DER) to trust."""

    def __init__(self, host, port, timeout_ms, ca=None):
        self._timeout_ms = timeout_ms
        self._decoder = Decoder()
        self._packets = []
        self._socket = socket.socket()
        try:
            self._socket.settimeout(timeout_ms / 1000)
            self._socket.connect(_resolved(host, port, socket.SOCK_STREAM))
            if ca is not None:
                self._socket = _secured(self._socket, host, ca)
            self._socket.setblocking(False)
        except (OSError, ValueError) as error:
            self._socket.close()
            raise LinkError(f"can't reach {host}:{port} ({error})") from None
        self._poller = select.poll()
        self._poller.register(self._socket, select.POLLIN)

    def send(self, packet):
        data, since = memoryview(encode(packet)), time.ticks_ms()
        while data:
            try:
                sent = self._socket.write(data)
            except OSError as error:
                if error.args[0] != _EAGAIN:
                    raise LinkError(f"the connection broke ({error})") from None
                sent = None
            if sent:
                data = data[sent:]
            elif time.ticks_diff(time.ticks_ms(), since) > self._timeout_ms:
                raise LinkError("the gateway takes nothing")
            else:
                time.sleep_ms(1)

    def receive(self, timeout_ms):
        # TLS may hold decrypted bytes that no poll tells of: look first.
        if not self._packets:
            self._read()
        if not self._packets and self._poller.poll(timeout_ms):
            self._read()
        return self._packets.pop(0) if self._packets else None

    def close(self):
        self._socket.close()

    def _read(self):
        try:
            data = self._socket.read(_CHUNK)
        except OSError as error:
            if error.args[0] == _EAGAIN:
                return
            raise LinkError(f"the connection broke ({error})") from None
        if data == b"":
            raise LinkError("the gateway closed the connection")
        if data:
            self._packets.extend(self._decoder.receive(data))


class SerialLine:
    """COBS packets over a UART, which is asked again and again: ports differ in what can wait."""

    def __init__(self, uart):
        self._uart = uart
        self._decoder = Decoder()
        self._packets = []

    def send(self, packet):
        data = memoryview(encode(packet))
        while data:
            data = data[self._uart.write(data) or 0 :]

    def receive(self, timeout_ms):
        since = time.ticks_ms()
        while not self._packets:
            data = self._uart.read()
            if data:
                self._packets.extend(self._decoder.receive(data))
            elif time.ticks_diff(time.ticks_ms(), since) >= timeout_ms:
                return None
            else:
                time.sleep_ms(_SERIAL_STEP_MS)
        return self._packets.pop(0)

    def close(self):
        """The line stays."""


def _resolved(host, port, kind):
    try:
        return socket.getaddrinfo(host, port, 0, kind)[0][-1]
    except OSError as error:
        raise LinkError(f"{host} is not known ({error})") from None


def _secured(plain, host, ca):
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=ca)
    return context.wrap_socket(plain, server_hostname=host)
