import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from headtail_cloud.gateway import http_server
from headtail_cloud.gateway.http_server import HEAD_BYTES, http_protocol, loop_factory

PART = 4096


class Wire(asyncio.Transport):
    """What a server says; takes whatever comes."""

    def __init__(self) -> None:
        super().__init__()
        self.said = b""
        self._closing = False

    def write(self, data: Any) -> None:
        self.said += bytes(data)

    def close(self) -> None:
        self._closing = True

    def is_closing(self) -> bool:
        return self._closing

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


async def _echo(scope: Any, receive: Any, send: Any) -> None:
    size, more = 0, True
    while more:
        message = await receive()
        size += len(message["body"])
        more = message["more_body"]
    body = str(size).encode()
    head = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": body})


def said_to(*pieces: bytes) -> Wire:
    """What a server says to a client that sends those, and no more once it is closed."""
    wire = Wire()

    async def whole() -> None:
        config = uvicorn.Config(_echo, http=http_protocol(), ws="none", log_config=None)
        config.load()
        make: Callable[..., Any] = config.http_protocol_class
        protocol = make(config=config, server_state=ServerState(), app_state={})
        protocol.connection_made(wire)
        for piece in pieces:
            if not wire.is_closing():
                protocol.data_received(piece)
                await asyncio.sleep(0)
        for _ in range(10):
            await asyncio.sleep(0)
        protocol.connection_lost(ConnectionResetError())

    asyncio.run(whole())
    return wire


def endless(start: bytes, part: bytes) -> list[bytes]:
    return [start, *[part] * (2 * HEAD_BYTES // len(part) + 2)]


def test_a_long_body_is_no_long_head() -> None:
    head = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % (40 * PART)
    wire = said_to(head, *[b"x" * PART] * 40)
    assert b"200 OK" in wire.said
    assert wire.said.endswith(str(40 * PART).encode())


@pytest.mark.parametrize(
    ("start", "part"),
    [
        (b"GET /", b"x" * PART),
        (b"GET / HTTP/1.1\r\nhost: a\r\n", b"name: " + b"x" * PART + b"\r\n"),
        (b"GET / HTTP/1.1\r\nhost: a\r\nname: ", b"x" * PART),
        (
            b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n0\r\n",
            b"name: " + b"x" * PART + b"\r\n",
        ),
    ],
    ids=["target", "headers", "header", "trailers"],
)
def test_a_head_without_end_is_refused(start: bytes, part: bytes) -> None:
    wire = said_to(*endless(start, part))
    assert wire.is_closing()
    assert b"400 Bad Request" in wire.said


def test_requests_that_are_answered_do_not_add_up() -> None:
    one = b"GET / HTTP/1.1\r\nhost: a\r\nname: " + b"x" * PART + b"\r\n\r\n"
    wire = said_to(*[one] * (2 * HEAD_BYTES // PART))
    assert not wire.is_closing()
    assert b"400" not in wire.said


def test_what_is_not_installed_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "find_spec", lambda name: None)
    assert http_protocol() == "h11"
    assert loop_factory() is asyncio.new_event_loop
