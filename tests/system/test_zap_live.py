"""ROUTER and DEALER over TCP with CURVE, a live ZAP handler and an allow-list that changes."""

import logging
from collections.abc import Iterator
from contextlib import suppress
from datetime import date
from pathlib import Path

import pytest
import zmq
from zmq.utils.monitor import recv_monitor_message

from headtail_fabric import allowlist, keys
from headtail_fabric.allowlist import AllowList, Member, Role
from headtail_fabric.clock import FakeClock
from headtail_fabric.errors import LocalError
from headtail_fabric.keys import KeyPair
from headtail_fabric.zap import (
    Authenticator,
    HandshakeCount,
    Identity,
    client_curve,
    identity_of,
    server_curve,
)

pytestmark = pytest.mark.system

WAIT_MS = 10_000
QUIET_MS = 50
FAILURES = (
    zmq.Event.HANDSHAKE_FAILED_AUTH
    | zmq.Event.HANDSHAKE_FAILED_PROTOCOL
    | zmq.Event.HANDSHAKE_FAILED_NO_DETAIL
    | zmq.Event.DISCONNECTED
)


def enrol(path: Path, pair: KeyPair, role: Role = Role.DEVICE) -> None:
    today = date(2026, 5, 1)
    allowlist.enrol(path, Member(name=pair.name, public=pair.public, role=role, added=today))


class Server:
    """A ROUTER that only enrolled keys reach."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.keys = keys.generate("edge-1")
        self.allow_list = AllowList(path)
        self.context = zmq.Context()
        self.clock = FakeClock()
        self.authenticator = Authenticator(self.context, self.allow_list, clock=self.clock)
        self.authenticator.start()
        self.socket: zmq.Socket[bytes] = self.context.socket(zmq.ROUTER)
        self.socket.linger = 0
        server_curve(self.socket, self.keys)
        self.socket.bind("tcp://127.0.0.1:*")

    @property
    def endpoint(self) -> str:
        return self.socket.getsockopt_string(zmq.LAST_ENDPOINT)

    def receive(self) -> tuple[bytes, Identity | None]:
        assert self.socket.poll(WAIT_MS), "nothing came"
        frame = self.socket.recv_multipart(copy=False)[-1]
        return frame.bytes, identity_of(frame)

    def close(self) -> None:
        self.socket.close()
        self.authenticator.stop()
        self.context.term()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    path = tmp_path / "allow.toml"
    enrol(path, keys.generate("somebody-else"))
    made = Server(path)
    yield made
    made.close()


class Clients:
    """DEALERs that try to reach the server once each."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._sockets: list[zmq.Socket[bytes]] = []

    def dealer(self) -> zmq.Socket[bytes]:
        socket = self._context.socket(zmq.DEALER)
        socket.linger = 0
        # One handshake a socket: the test sees the first refusal, and no other follows.
        socket.reconnect_ivl = -1
        self._sockets.append(socket)
        return socket

    def send(self, pair: KeyPair, message: bytes) -> zmq.Socket[bytes]:
        socket = self.dealer()
        client_curve(socket, pair, self._server.keys.public)
        socket.connect(self._server.endpoint)
        socket.send(message)
        return socket

    def refused(self, pair: KeyPair) -> tuple[int, int]:
        socket = self.dealer()
        client_curve(socket, pair, self._server.keys.public)
        return self.refusal(socket)

    def refusal(self, socket: zmq.Socket[bytes]) -> tuple[int, int]:
        """How the attempt to connect ended, as the client's socket tells."""
        with socket.get_monitor_socket(FAILURES) as monitor:
            socket.connect(self._server.endpoint)
            with suppress(zmq.Again):  # refused already, and it does not try again
                socket.send(b"let me in", zmq.NOBLOCK)
            assert monitor.poll(WAIT_MS), "nobody refused"
            event = recv_monitor_message(monitor)
            socket.disable_monitor()
        return event["event"], event["value"]

    def close(self) -> None:
        self._context.destroy(linger=0)


@pytest.fixture
def clients(server: Server) -> Iterator[Clients]:
    made = Clients(server)
    yield made
    made.close()


def test_an_enrolled_key_passes_under_its_name(server: Server, clients: Clients) -> None:
    device = keys.generate("cam-1")
    enrol(server.path, device)
    identity = Identity(user="cam-1", public=device.public)
    client = clients.send(device, b"first")
    assert server.receive() == (b"first", identity)
    client.send(b"second")
    assert server.receive() == (b"second", identity)
    assert server.authenticator.count == HandshakeCount(accepted=1, refused=0)


def test_an_unknown_key_is_refused(server: Server, clients: Clients) -> None:
    stranger = keys.generate("cam-1")
    assert clients.refused(stranger) == (zmq.Event.HANDSHAKE_FAILED_AUTH, 400)
    assert not server.socket.poll(QUIET_MS)
    assert server.authenticator.count == HandshakeCount(accepted=0, refused=1)
    assert repr(server.authenticator) == (
        "Authenticator(headtail, HandshakeCount(accepted=0, refused=1))"
    )


def test_a_key_revoked_while_the_server_runs_is_refused_at_its_next_handshake(
    server: Server, clients: Clients
) -> None:
    device, other = keys.generate("cam-1"), keys.generate("cam-2")
    enrol(server.path, device)
    enrol(server.path, other)
    clients.send(device, b"in")
    assert server.receive()[0] == b"in"

    allowlist.revoke(server.path, "cam-1")
    assert clients.refused(device) == (zmq.Event.HANDSHAKE_FAILED_AUTH, 400)
    assert server.allow_list.refresh() == {device.public: device.name}
    clients.send(other, b"still in")
    assert server.receive() == (b"still in", Identity(user="cam-2", public=other.public))

    enrol(server.path, device)
    clients.send(device, b"in again")
    assert server.receive()[0] == b"in again"
    assert server.authenticator.count == HandshakeCount(accepted=3, refused=1)


def test_a_broken_list_neither_opens_the_door_nor_shuts_it(
    server: Server, clients: Clients
) -> None:
    device = keys.generate("cam-1")
    enrol(server.path, device)
    clients.send(device, b"in")
    assert server.receive()[0] == b"in"
    server.path.write_text("schema = ")
    assert clients.refused(keys.generate("cam-2"))[1] == 400
    clients.send(device, b"still in")
    assert server.receive()[0] == b"still in"


def test_a_client_without_curve_or_with_the_wrong_server_key_gets_nowhere(
    server: Server, clients: Clients
) -> None:
    clients.refusal(clients.dealer())

    plain = clients.dealer()
    plain.plain_username, plain.plain_password = b"cam-1", b"secret"
    clients.refusal(plain)

    misled = clients.dealer()
    client_curve(misled, keys.generate("cam-1"), keys.generate("other").public)
    clients.refusal(misled)

    assert not server.socket.poll(QUIET_MS)
    assert server.authenticator.count == HandshakeCount()


def test_a_client_can_not_choose_whom_it_is(server: Server, clients: Clients) -> None:
    device = keys.generate("cam-1")
    enrol(server.path, device)
    client = clients.dealer()
    client_curve(client, device, server.keys.public)
    try:
        client.setsockopt(zmq.METADATA, b"X-Headtail-Key:" + server.keys.public.encode())
    except zmq.ZMQError:
        pytest.skip("this libzmq can't send properties of its own")
    client.connect(server.endpoint)
    client.send(b"me")
    assert server.receive() == (b"me", Identity(user="cam-1", public=device.public))


def test_without_its_handler_a_server_takes_nobody(server: Server, clients: Clients) -> None:
    device = keys.generate("cam-1")
    enrol(server.path, device)
    server.authenticator.stop()
    clients.refused(device)
    assert not server.socket.poll(QUIET_MS)


def test_a_list_that_fails_refuses_one_and_serves_the_next(
    server: Server,
    clients: Clients,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    device = keys.generate("cam-1")
    enrol(server.path, device)

    def broken(public: str) -> Member | None:
        raise RuntimeError("a bug")

    with monkeypatch.context() as patched:
        patched.setattr(server.allow_list, "lookup", broken)
        assert clients.refused(device) == (zmq.Event.HANDSHAKE_FAILED_AUTH, 500)
    assert "the allow-list failed" in caplog.text
    clients.send(device, b"in")
    assert server.receive()[0] == b"in"


def test_a_stranger_who_knocks_on_does_not_fill_the_log(
    server: Server, clients: Clients, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            clients.refused(keys.generate("x"))
        assert len(caplog.records) == 1
        server.clock.advance(1.0)
        clients.refused(keys.generate("x"))
    assert len(caplog.records) == 2


def test_a_context_has_one_handler_that_starts_once(server: Server) -> None:
    with pytest.raises(LocalError, match="has a ZAP handler already"):
        Authenticator(server.context, server.allow_list).start()
    with pytest.raises(LocalError, match="starts once"):
        server.authenticator.start()


def test_the_end_of_the_context_ends_the_handler(tmp_path: Path) -> None:
    enrol(tmp_path / "allow.toml", keys.generate("cam-1"))
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    with Authenticator(context, AllowList(tmp_path / "allow.toml")) as authenticator:
        context.term()
    authenticator.stop()
    Authenticator(context, AllowList(tmp_path / "allow.toml")).stop()
