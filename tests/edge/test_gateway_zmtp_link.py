"""A node without keys that speaks ZMTP by hand, to say what no library would."""

import socket
from collections.abc import Iterator

import pytest
import zmq

from headtail_edge.gateway.config import ZmtpConfig
from headtail_edge.gateway.links.link import Incoming
from headtail_edge.gateway.links.zmtp import ZmtpLink
from headtail_edge.gateway.metrics import GatewayMetrics
from headtail_fabric.metrics import NullMetrics

pytestmark = pytest.mark.system

GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(48)


def prop(name: bytes, value: bytes) -> bytes:
    return bytes([len(name)]) + name + len(value).to_bytes(4, "big") + value


@pytest.fixture
def link() -> Iterator[ZmtpLink]:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    opened = ZmtpLink(
        ZmtpConfig(bind="tcp://127.0.0.1:0", security="none"),
        context=context,
        key=None,
        metrics=GatewayMetrics(NullMetrics()),
    )
    try:
        yield opened
    finally:
        opened.close()
        context.destroy(0)


def sent(link: ZmtpLink, ready: bytes, *messages: bytes) -> list[Incoming]:
    """What the link makes of messages behind a READY with such properties."""
    poller = zmq.Poller()
    link.watch(poller)
    host, port = link.endpoint.removeprefix("tcp://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as client:
        said = client.makefile("rb")  # whose `read` waits for all
        body = b"\x05READY" + ready
        client.sendall(GREETING)
        assert said.read(64)[:1] == b"\xff"
        client.sendall(bytes([4, len(body)]) + body)
        # Messages follow both READYs (RFC 23): libzmq hangs up on one that overtakes its own.
        flags, length = said.read(2)
        assert flags == 4
        assert said.read(length).startswith(b"\x05READY")
        client.sendall(b"".join(messages))
        found: list[Incoming] = []
        while not found:
            assert poller.poll(10_000), "nothing came"
            found += link.read()
        return found


def test_a_name_that_a_client_gives_itself_proves_nothing(link: ZmtpLink) -> None:
    ready = prop(b"Socket-Type", b"DEALER") + prop(b"User-Id", b"victim")
    (came,) = sent(link, ready, b"\x00\x05hello")
    assert (came.node, came.data) == (None, b"hello")


def test_an_identity_that_a_client_gives_itself_is_a_route_and_no_more(link: ZmtpLink) -> None:
    ready = prop(b"Socket-Type", b"DEALER") + prop(b"Identity", b"victim")
    (came,) = sent(link, ready, b"\x00\x05hello")
    assert (came.node, came.address) == (None, b"victim")


def test_messages_of_several_parts_are_dropped(link: ZmtpLink) -> None:
    ready = prop(b"Socket-Type", b"DEALER")
    (came,) = sent(link, ready, b"\x01\x01a\x00\x01b", b"\x00\x04last")
    assert came.data == b"last"
