"""CURVE on sockets, and the ZAP handler that asks the allow-list at each handshake.

ZAP (ZeroMQ RFC 27): libzmq sends what a client proved in its handshake to a REP socket at
`inproc://zeromq.zap.01` of the same context, and waits for 200 or 400. pyzmq's own
`zmq.auth.ThreadAuthenticator` is not used because it lets NULL clients in, looks a key up a second
time for its User-Id, and ends when a callback raises.

Every message of an accepted client carries its enrolled name (`User-Id`) and its key, which it
can't choose: `identity_of` reads both.
"""

import ipaddress
import logging
import secrets
import struct
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Self

import zmq
from zmq.utils import z85

from headtail_fabric.allowlist import AllowList, Member
from headtail_fabric.clock import Clock, MonotonicClock
from headtail_fabric.errors import ConfigError, LocalError
from headtail_fabric.keys import CurveMissingError, KeyPair, check_public
from headtail_fabric.logs import fields

DOMAIN: Final = "headtail"
HANDLER_ENDPOINT: Final = "inproc://zeromq.zap.01"

_VERSION: Final = b"1.0"
_KEY_PROPERTY: Final = "X-Headtail-Key"
_ACCEPTED: Final = b"200"
_REFUSED: Final = b"400"
_FAILED: Final = b"500"
_REPORT_INTERVAL_S: Final = 1.0

log = logging.getLogger(__name__)


class ExposedEndpointError(ConfigError):
    """A server without an allow-list would let anybody on the network in, so it binds to this
    machine alone. Bind to tcp://127.0.0.1:PORT, or make an allow-list with `headtail keys enrol`
    and name it in the configuration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Whom a message comes from: the enrolled name and the public key (Z85)."""

    user: str
    public: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HandshakeCount:
    """Handshakes decided so far."""

    accepted: int = 0
    refused: int = 0


def check_exposure(endpoint: str, *, has_allow_list: bool) -> None:
    """Raise ExposedEndpointError unless an allow-list guards `endpoint`, or it is on this machine:
    127.0.0.0/8, [::1] or localhost over TCP, ipc:// or inproc://."""
    if has_allow_list or _is_local(endpoint):
        return
    raise ExposedEndpointError(
        f"{endpoint} can be reached from outside and no allow-list is given", endpoint=endpoint
    )


def _is_local(endpoint: str) -> bool:
    transport, _, address = endpoint.partition("://")
    if transport in ("ipc", "inproc"):
        return True
    if transport != "tcp":
        return False
    host = address.rpartition(":")[0].removeprefix("[").removesuffix("]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False  # a wildcard, an interface, a host name: who knows where that leads


def server_curve(socket: zmq.Socket[Any], key_pair: KeyPair, *, domain: str = DOMAIN) -> None:
    """Make `socket` a CURVE server that takes nobody without a ZAP handler's word.

    Call it before `bind`, and keep an `Authenticator` for `domain` running in the same context
    while it is bound. Raises LocalError when the socket is bound already, CurveMissingError.
    """
    _check_unused(socket)
    if not domain:
        raise LocalError("without a ZAP domain libzmq would accept any key")
    try:
        socket.curve_server = True
        socket.curve_secretkey = key_pair.secret.encode()
        socket.zap_domain = domain.encode()
        # Otherwise libzmq lets everybody in whenever no handler is there.
        socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)
    except zmq.ZMQError as error:
        raise CurveMissingError(f"the socket can't be a CURVE server: {error}") from None


def client_curve(socket: zmq.Socket[Any], key_pair: KeyPair, server_public: str) -> None:
    """Make `socket` a CURVE client of the server whose key is `server_public` (Z85).

    Call it before `connect`. Raises LocalError when the socket is connected already, BadKeyError,
    CurveMissingError.
    """
    _check_unused(socket)
    check_public(server_public)
    try:
        socket.curve_publickey = key_pair.public.encode()
        socket.curve_secretkey = key_pair.secret.encode()
        socket.curve_serverkey = server_public.encode()
    except zmq.ZMQError as error:
        raise CurveMissingError(f"the socket can't be a CURVE client: {error}") from None


def _check_unused(socket: zmq.Socket[Any]) -> None:
    # Options set later would hold for later binds and connects only.
    if socket.last_endpoint:
        raise LocalError(f"CURVE must be set before the socket uses {socket.last_endpoint!r}")


def identity_of(frame: zmq.Frame) -> Identity | None:
    """Whom a received frame (`copy=False`) comes from; None when no ZAP handler said so.

    Ask only about frames of sockets set up by `server_curve`: elsewhere a client names itself.
    """
    try:
        return Identity(user=str(frame.get("User-Id")), public=str(frame.get(_KEY_PROPERTY)))
    except zmq.ZMQError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The answer to one ZAP request: the reply's frames, and for the log whom or why not."""

    reply: tuple[bytes, ...]
    member: Member | None = None
    reason: str = ""
    address: str = ""


def judge(
    request: Sequence[bytes], *, domain: str, lookup: Callable[[str], Member | None]
) -> Verdict:
    """Accept a CURVE handshake in `domain` with a key that `lookup` knows; refuse all else.

    What a client is told is the same whatever the reason. Never raises, but for what `lookup`
    raises.
    """
    request_id = request[1] if len(request) > 1 else b""
    address = request[3].decode("ascii", "replace") if len(request) > 3 else ""

    def refuse(reason: str) -> Verdict:
        return Verdict(
            reply=(_VERSION, request_id, _REFUSED, b"refused", b"", b""),
            reason=reason,
            address=address,
        )

    match request:
        case [version, _, asked, _, _, mechanism, *credentials]:
            if version != _VERSION:
                return refuse("unknown ZAP version")
            if asked != domain.encode():
                return refuse("another domain")
            if mechanism != b"CURVE":
                return refuse("not CURVE")
            if len(credentials) != 1 or len(credentials[0]) != 32:
                return refuse("not a key")
        case _:
            return refuse("malformed request")
    public = z85.encode(credentials[0])
    member = lookup(public.decode())
    if member is None:
        return refuse("unknown key")
    metadata = _property(_KEY_PROPERTY.encode(), public)
    return Verdict(
        reply=(_VERSION, request_id, _ACCEPTED, b"OK", member.name.encode(), metadata),
        member=member,
        address=address,
    )


def _property(name: bytes, value: bytes) -> bytes:
    """A metadata property as ZMTP 3.0 writes it (RFC 23)."""
    return bytes([len(name)]) + name + struct.pack(">I", len(value)) + value


class Authenticator:
    """The ZAP handler of one context: a thread that asks the allow-list.

    Start it before the first server socket binds, stop it after the last has closed, and use it
    once. While it does not run, handshakes are refused.
    """

    def __init__(
        self,
        context: zmq.Context[Any],
        allow_list: AllowList,
        *,
        domain: str = DOMAIN,
        clock: Clock | None = None,
    ) -> None:
        self._context = context
        self._allow_list = allow_list
        self._domain = domain
        self._clock = clock or MonotonicClock()
        self._stop_request = secrets.token_bytes(16)
        self._thread: threading.Thread | None = None
        self._count = HandshakeCount()
        self._report_at_s = self._clock.now()

    def __repr__(self) -> str:
        return f"Authenticator({self._domain}, {self._count})"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def count(self) -> HandshakeCount:
        """Handshakes accepted and refused until now."""
        return self._count

    def start(self) -> None:
        """Answer handshakes from now on. Raises LocalError when the context has a handler."""
        if self._thread is not None:
            raise LocalError("an authenticator starts once")
        handler = self._context.socket(zmq.REP, socket_class=zmq.Socket)
        handler.linger = 0
        try:
            handler.bind(HANDLER_ENDPOINT)
        except zmq.ZMQError as error:
            handler.close()
            raise LocalError(f"the context has a ZAP handler already: {error}") from None
        self._thread = threading.Thread(target=self._run, args=(handler,), name="zap", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread; handshakes are refused from now on. Does nothing the second time."""
        if self._thread is None or not self._thread.is_alive() or self._context.closed:
            return
        with self._context.socket(zmq.REQ, socket_class=zmq.Socket) as request:
            request.linger = 0
            request.connect(HANDLER_ENDPOINT)
            request.send(self._stop_request)
            self._thread.join()

    def _run(self, handler: zmq.Socket[bytes]) -> None:
        # The context's end ends the thread too: nobody can shake hands any more.
        with handler, suppress(zmq.ContextTerminated):
            while (request := handler.recv_multipart()) != [self._stop_request]:
                handler.send_multipart(self._answer(request))

    def _answer(self, request: Sequence[bytes]) -> Sequence[bytes]:
        try:
            verdict = judge(request, domain=self._domain, lookup=self._allow_list.lookup)
        except Exception:
            log.exception("handshake refused: the allow-list failed")
            verdict = Verdict(reply=(_VERSION, request[1], _FAILED, b"refused", b"", b""))
        accepted = verdict.member is not None
        self._count = HandshakeCount(
            accepted=self._count.accepted + accepted,
            refused=self._count.refused + (not accepted),
        )
        if verdict.member is not None:
            log.debug("handshake", extra=fields(user=verdict.member.name, address=verdict.address))
        elif self._clock.now() >= self._report_at_s:
            # A stranger who knocks ten times a second must not fill the log.
            self._report_at_s = self._clock.now() + _REPORT_INTERVAL_S
            log.warning(
                "handshake refused",
                extra=fields(
                    reason=verdict.reason, address=verdict.address, refused=self._count.refused
                ),
            )
        return verdict.reply
