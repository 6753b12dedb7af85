"""The ZeroMQ shells over real sockets: traffic, CURVE, reconnection, revocation, byte counts."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path

import pytest
import zmq

from headtail_fabric import allowlist, keys, wire
from headtail_fabric.allowlist import AllowList, Member, Role
from headtail_fabric.errors import ConfigError
from headtail_fabric.keys import KeyPair
from headtail_fabric.peer.errors import BindError, ConnectError
from headtail_fabric.peer.events import (
    Answered,
    ClientEvent,
    Connected,
    Disconnected,
    RequestArrived,
    ServerEvent,
    SessionOpened,
)
from headtail_fabric.peer.ports import ClientPort
from headtail_fabric.peer.zmq_client import ZmqClient
from headtail_fabric.peer.zmq_server import ZmqServer
from headtail_fabric.wire import Hints, Timings
from headtail_fabric.zap import client_curve
from peers import ANSWER, DIGEST, TENSOR

pytestmark = pytest.mark.system

PATIENCE_S = 20.0


@contextmanager
def serving(server: ZmqServer) -> Iterator[list[ServerEvent]]:
    """Echo payloads from a thread until the block ends; yields the events seen."""
    events: list[ServerEvent] = []
    stop = threading.Event()

    def serve() -> None:
        while not stop.is_set():
            event = server.poll(0.02)
            if event is None:
                continue
            events.append(event)
            if isinstance(event, RequestArrived):
                server.respond(
                    event.session,
                    event.request.id,
                    tensors=[ANSWER],
                    payloads=[bytes(event.payloads[0])[:1]],
                    timings=Timings(compute_us=1),
                    hints=Hints(),
                )

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield events
    finally:
        stop.set()
        thread.join()


def wait_for(client: ClientPort, kind: type[ClientEvent]) -> ClientEvent:
    for _ in range(1000):
        event = client.poll(PATIENCE_S)
        assert event is not None, f"no {kind.__name__} within {PATIENCE_S} s"
        if isinstance(event, kind):
            return event
    raise AssertionError(f"a thousand events without {kind.__name__}")


def ask(client: ClientPort, payload: bytes = b"abcd") -> int:
    return client.submit(
        bundle=DIGEST, cut="L7", tensors=[TENSOR], payloads=[payload], deadline_s=PATIENCE_S
    )


class Enrolment:
    """Key pairs of an edge and a device, and the list that enrols the device."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "allow.toml"
        self.server, self.device = keys.generate("edge"), keys.generate("cam-1")
        self.enrol(self.device)

    def enrol(self, pair: KeyPair) -> None:
        member = Member(
            name=pair.name, public=pair.public, role=Role.DEVICE, added=date(2026, 1, 1)
        )
        allowlist.enrol(self.path, member)

    def open_server(self) -> ZmqServer:
        return ZmqServer(
            "tcp://127.0.0.1:0", name="edge", keys=self.server, allow_list=AllowList(self.path)
        )

    def open_client(self, server: ZmqServer, pair: KeyPair | None = None) -> ZmqClient:
        return ZmqClient(
            server.endpoint,
            name="cam",
            keys=pair or self.device,
            server_key=self.server.public,
        )


@pytest.fixture
def enrolment(tmp_path: Path) -> Enrolment:
    return Enrolment(tmp_path)


@pytest.mark.parametrize("curve", [False, True])
def test_requests_are_answered_and_every_byte_is_counted(enrolment: Enrolment, curve: bool) -> None:
    server = enrolment.open_server() if curve else ZmqServer("tcp://127.0.0.1:0", name="edge")
    client = enrolment.open_client(server) if curve else ZmqClient(server.endpoint, name="cam")
    with server, serving(server) as events:
        with client:
            wait_for(client, Connected)
            for size in (1, 100, 300, 70_000):
                ask(client, bytes(size))
            answers = [wait_for(client, Answered) for _ in range(4)]
            assert all(isinstance(a, Answered) and a.attempts == 1 for a in answers)
            traffic = client.traffic()
        opened = [event for event in events if isinstance(event, SessionOpened)]
        assert [event.user for event in opened] == ["cam-1" if curve else ""]
    if traffic.socket_bytes_up is None or traffic.socket_bytes_down is None:
        pytest.skip("this platform does not count bytes at the socket")
    # What the kernel saw beyond the messages is the handshake (and perhaps a ZMTP heartbeat).
    handshake = 800 if curve else 250
    assert 0 < traffic.socket_bytes_up - traffic.message_bytes_up < handshake
    assert 0 < traffic.socket_bytes_down - traffic.message_bytes_down < handshake


def test_a_client_waits_for_a_server_that_is_not_there_yet() -> None:
    with zmq.Context() as context, context.socket(zmq.ROUTER) as probe:
        probe.bind("tcp://127.0.0.1:0")
        endpoint = probe.getsockopt_string(zmq.LAST_ENDPOINT)
    with ZmqClient(endpoint, name="cam") as client:
        down = wait_for(client, Disconnected)
        assert down == Disconnected(reason="nobody answers there")
        server = ZmqServer(endpoint, name="edge")
        with server, serving(server):
            wait_for(client, Connected)


def test_requests_survive_a_restart_of_the_server() -> None:
    first = ZmqServer("tcp://127.0.0.1:0", name="edge")
    with ZmqClient(first.endpoint, name="cam") as client:
        pump(client, first, until=lambda: client.free_window() > 0)
        ask(client)
        arrived = pump(client, first, until=lambda: False)
        assert isinstance(arrived[-1], RequestArrived)
        first.close()
        wait_for(client, Disconnected)
        second = ZmqServer(first.endpoint, name="edge")
        with second, serving(second):
            connected = wait_for(client, Connected)
            assert isinstance(connected, Connected)
            assert connected.restarted
            answered = wait_for(client, Answered)
            assert isinstance(answered, Answered)
            assert answered.attempts == 2


def pump(client: ZmqClient, server: ZmqServer, *, until: Callable[[], bool]) -> list[ServerEvent]:
    """Work both ends in turn until a condition holds or a request has arrived."""
    events: list[ServerEvent] = []
    for _ in range(2000):
        client.poll(0.005)
        event = server.poll(0.005)
        if event is not None:
            events.append(event)
        if until() or isinstance(event, RequestArrived):
            return events
    raise AssertionError(f"nothing came of it: {client!r}, {server!r}")


def test_a_stranger_is_told_why_it_gets_nowhere(enrolment: Enrolment) -> None:
    server = enrolment.open_server()
    with server, serving(server) as events:
        with enrolment.open_client(server, keys.generate("stranger")) as client:
            down = wait_for(client, Disconnected)
            assert isinstance(down, Disconnected)
            assert "refused this device's key" in down.reason
        assert events == []


def test_a_wrong_server_key_is_no_connection(enrolment: Enrolment) -> None:
    server = enrolment.open_server()
    with server, serving(server) as events:
        client = ZmqClient(
            server.endpoint,
            name="cam",
            keys=enrolment.device,
            server_key=keys.generate("other").public,
        )
        with client:
            wait_for(client, Disconnected)
        assert events == []


def test_a_revoked_device_is_dropped_and_can_not_greet_again(enrolment: Enrolment) -> None:
    server = enrolment.open_server()
    with server, serving(server) as events:
        with enrolment.open_client(server) as client:
            wait_for(client, Connected)
            allowlist.revoke(enrolment.path, "cam-1")
            down = wait_for(client, Disconnected)
            assert down == Disconnected(reason="this key is no longer allowed here", final=True)
        seen = len([event for event in events if isinstance(event, SessionOpened)])
        assert seen == 1


def test_a_revoked_key_is_not_heard_on_its_open_connection(enrolment: Enrolment) -> None:
    server = enrolment.open_server()
    context = zmq.Context()
    dealer: zmq.Socket[bytes] = context.socket(zmq.DEALER)
    dealer.linger = 0
    client_curve(dealer, enrolment.device, enrolment.server.public)
    with server, serving(server) as events:
        dealer.connect(server.endpoint)
        hello = wire.Hello(session=bytes(16), name="raw", agent="raw")
        dealer.send_multipart(wire.encode(hello))
        assert dealer.poll(int(PATIENCE_S * 1000))
        assert isinstance(wire.decode(dealer.recv_multipart())[0], wire.Offer)
        allowlist.revoke(enrolment.path, "cam-1")
        assert dealer.poll(int(PATIENCE_S * 1000))
        reply = wire.decode(dealer.recv_multipart())[0]
        assert isinstance(reply, wire.ErrorReply)
        assert reply.code is wire.ErrorCode.NOT_ALLOWED
        dealer.send_multipart(wire.encode(hello))
        other = keys.generate("cam-2")
        enrolment.enrol(other)
        with enrolment.open_client(server, other) as proof_that_the_server_lives:
            wait_for(proof_that_the_server_lives, Connected)
        assert dealer.poll(200) == 0
        users = [event.user for event in events if isinstance(event, SessionOpened)]
        assert users == ["cam-1", "cam-2"]
    dealer.close()
    context.term()


def test_ports_in_use_bad_addresses_and_exposure_are_typed_errors(enrolment: Enrolment) -> None:
    with (
        ZmqServer("tcp://127.0.0.1:0", name="edge") as server,
        pytest.raises(BindError, match="the port is in use"),
    ):
        ZmqServer(server.endpoint, name="other")
    with pytest.raises(BindError, match="can't bind"):
        ZmqServer("ipc:///no/such/folder/socket", name="edge")
    with pytest.raises(ConfigError, match="no allow-list"):
        ZmqServer("tcp://*:0", name="edge")
    with pytest.raises(ConnectError, match="no address"):
        ZmqClient("nonsense", name="cam")
