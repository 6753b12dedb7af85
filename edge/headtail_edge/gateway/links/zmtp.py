"""Nodes that speak ZeroMQ: a ROUTER, and the ZAP handler of its context.

Routes are given by the ROUTER, never claimed by a node, and each message carries the name that its
connection proved: nobody can take another node's place.
"""

import ipaddress
from collections.abc import Callable, Hashable, Iterator, Sequence
from datetime import date
from typing import Final

import zmq
from zmq.utils import z85

from headtail_edge.gateway.config import ZmtpConfig
from headtail_edge.gateway.links.link import Incoming
from headtail_edge.gateway.messages import MAX_BYTES
from headtail_edge.gateway.metrics import Dropped, GatewayMetrics
from headtail_edge.gateway.node_book import Roster
from headtail_fabric.allowlist import Member, Role
from headtail_fabric.errors import ConfigError
from headtail_fabric.keys import KeyPair
from headtail_fabric.peer import options
from headtail_fabric.zap import HANDLER_ENDPOINT, Verdict, judge, server_curve

CURVE_DOMAIN: Final = "headtail-nodes-curve"
PLAIN_DOMAIN: Final = "headtail-nodes-plain"
_READ_AT_ONCE: Final = 64
_SEEN_AS: Final = date(1970, 1, 1)


class UnguardedLinkError(ConfigError):
    """A link without encryption would show everything to the network. Use curve, bind to
    tcp://127.0.0.1:PORT, or set `exposed` if something else protects it."""


class KeyWantedError(ConfigError):
    """A curve link needs the gateway's own key. Make one with `headtail keys new NAME`, and name
    the file as `key`."""


class Zap:
    """Says who may connect (ZeroMQ RFC 27), in the thread of the gateway's loop."""

    def __init__(self, context: "zmq.Context[zmq.Socket[bytes]]", roster: Callable[[], Roster]):
        self._roster = roster
        self._socket: zmq.Socket[bytes] = context.socket(zmq.REP)
        self._socket.linger = 0
        self._socket.bind(HANDLER_ENDPOINT)
        self.refused = 0

    def watch(self, poller: zmq.Poller) -> None:
        """Register with the poller."""
        poller.register(self._socket, zmq.POLLIN)

    def answer(self) -> None:
        """Decide the handshakes that wait."""
        while self._socket.poll(0):
            verdict = judge_node(self._socket.recv_multipart(), roster=self._roster())
            self.refused += verdict.member is None
            self._socket.send_multipart(verdict.reply)

    def close(self) -> None:
        """Handshakes are refused from now on."""
        self._socket.close()


def judge_node(request: Sequence[bytes], *, roster: Roster) -> Verdict:
    """Accept a known key in the CURVE domain and a known password in the PLAIN one; refuse all
    else. Never raises."""
    match request:
        case [b"1.0", request_id, domain, _, _, b"PLAIN", user, password] if (
            domain == PLAIN_DOMAIN.encode()
        ):
            name = user.decode("utf-8", "replace")
            if roster.by_password(name, password):
                reply = (b"1.0", request_id, b"200", b"OK", name.encode(), b"")
                return Verdict(reply=reply, member=_member(name, ""))
            reply = (b"1.0", request_id, b"400", b"refused", b"", b"")
            return Verdict(reply=reply, reason="unknown password")

    def lookup(public: str) -> Member | None:
        name = roster.by_public(public)
        return _member(name, public) if name is not None else None

    return judge(request, domain=CURVE_DOMAIN, lookup=lookup)


def _member(name: str, public: str) -> Member:
    return Member(name=name, public=public, role=Role.DEVICE, added=_SEEN_AS)


class ZmtpLink:
    """A `Link`. Raises BindError, UnguardedLinkError, KeyWantedError, CurveMissingError."""

    def __init__(
        self,
        config: ZmtpConfig,
        *,
        context: "zmq.Context[zmq.Socket[bytes]]",
        key: KeyPair | None,
        metrics: GatewayMetrics,
    ) -> None:
        if config.security != "curve" and not config.exposed and not _is_local(config.bind):
            raise UnguardedLinkError(f"{config.bind} with security {config.security}")
        self._metrics = metrics
        self._proved = config.security != "none"
        self._socket: zmq.Socket[bytes] = context.socket(zmq.ROUTER)
        options.server(self._socket)
        self._socket.setsockopt(zmq.MAXMSGSIZE, MAX_BYTES)
        if config.security == "curve":
            if key is None:
                raise KeyWantedError(f"{config.bind} is a curve link")
            server_curve(self._socket, key, domain=CURVE_DOMAIN)
        elif config.security == "plain":
            self._socket.plain_server = True
            self._socket.zap_domain = PLAIN_DOMAIN.encode()
            self._socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)
        self.endpoint = options.bind(self._socket, config.bind)

    def watch(self, poller: zmq.Poller) -> None:
        poller.register(self._socket, zmq.POLLIN)

    def read(self) -> Iterator[Incoming]:
        for _ in range(_READ_AT_ONCE):
            try:
                parts = self._socket.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return
            # Where no ZAP handler is asked a client may call itself anything.
            node = _proved_name(parts[-1]) if self._proved else None
            if len(parts) != 2 or (self._proved and node is None):
                self._metrics.dropped(Dropped.MALFORMED)
                continue
            yield Incoming(parts[0].bytes, node, parts[1].bytes)

    def send(self, address: Hashable, node: str, data: bytes) -> None:
        assert isinstance(address, bytes)
        try:
            self._socket.send_multipart([address, data], zmq.NOBLOCK)
        except zmq.ZMQError:
            return  # gone, or so slow that its queue is full

    def close(self) -> None:
        self._socket.close()


def key_hex(key: str) -> str:
    """A CURVE key (Z85) as nodes have it in their files."""
    return z85.decode(key).hex()


def _proved_name(frame: zmq.Frame) -> str | None:
    """What the ZAP handler called the sender; None where nobody was asked."""
    try:
        return str(frame.get("User-Id"))
    except zmq.ZMQError:
        return None


def _is_local(endpoint: str) -> bool:
    transport, _, address = endpoint.partition("://")
    host = address.rpartition(":")[0].removeprefix("[").removesuffix("]")
    try:
        return transport == "ipc" or host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
