"""A ZMTP session over TCP: one DEALER connection that is polled."""

import select
import socket
import time

from .errors import LinkError
from .zmtp import Session

_IPPROTO_TCP = 6
_TCP_NODELAY = 1
_CHUNK = 1460
_LONGEST_CONNECT_MS = 5000  # a watchdog of eight seconds is not fed meanwhile


class ZmtpLink:
    """Connects at once; `poll` does the handshake, too. Raises LinkError, RefusedError.

    `options` are `zmtp.Session`'s. `send_timeout_ms`: after that long without the server taking
    anything the link is given up.
    """

    def __init__(self, host, port, mechanism, send_timeout_ms=10000, **options):
        self._session = Session(mechanism, **options)
        self._clock = _Clock()
        self._send_timeout_ms = send_timeout_ms
        address = socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM)[0][-1]
        self._socket = socket.socket()
        try:
            self._socket.settimeout(min(send_timeout_ms, _LONGEST_CONNECT_MS) / 1000)
            self._socket.connect(address)
            # A message is one write; without this it may wait for the last one's acknowledgement.
            self._socket.setsockopt(_IPPROTO_TCP, _TCP_NODELAY, 1)
            self._socket.setblocking(False)
        except OSError as error:
            self._socket.close()
            raise LinkError(f"can't reach {host}:{port} ({error})") from None
        self._poller = select.poll()
        self._poller.register(self._socket, select.POLLIN)
        self._flush()

    @property
    def ready(self):
        return self._session.ready

    def send(self, *parts):
        """A message; blocks while the server takes nothing."""
        self._session.send(parts)
        self._flush()

    def poll(self, timeout_ms):
        """The next message as a list of parts, or None when the time is over."""
        end = self._clock.now() + timeout_ms
        while True:
            message = self._session.next_message()
            if message is not None:
                return message
            now = self._clock.now()
            wait = end - now
            timer = self._session.on_timer(now)
            self._flush()
            if wait < 0:
                return None
            if timer is not None:
                wait = min(wait, timer)
            if self._poller.poll(wait):
                self._read()
            elif wait == end - now:
                return None

    def wait_ready(self, timeout_ms):
        """Raises LinkError where the handshake is not done by then."""
        end = self._clock.now() + timeout_ms
        while not self._session.ready:
            left = end - self._clock.now()
            if left <= 0:
                raise LinkError(f"the server did not answer within {timeout_ms} ms")
            if self._poller.poll(left):
                self._read()

    def close(self):
        self._socket.close()

    def _read(self):
        try:
            data = self._socket.recv(_CHUNK)
        except OSError as error:
            raise LinkError(f"the connection broke ({error})") from None
        self._session.receive(data, self._clock.now())
        self._flush()

    def _flush(self):
        data = self._session.to_send()
        while data:
            self._send_all(memoryview(data))
            data = self._session.to_send()

    def _send_all(self, data):
        since = self._clock.now()
        while data:
            try:
                sent = self._socket.send(data)
            except OSError as error:
                if error.args[0] != 11:  # EAGAIN
                    raise LinkError(f"the connection broke ({error})") from None
                sent = None
            if sent:
                data = data[sent:]
                since = self._clock.now()
            elif self._clock.now() - since > self._send_timeout_ms:
                raise LinkError("the server takes nothing")
            else:
                time.sleep_ms(1)


class _Clock:
    """Milliseconds that do not wrap, from ticks that do."""

    def __init__(self):
        self._ticks = time.ticks_ms()
        self._now = 0

    def now(self):
        ticks = time.ticks_ms()
        self._now += time.ticks_diff(ticks, self._ticks)
        self._ticks = ticks
        return self._now
