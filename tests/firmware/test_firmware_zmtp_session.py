"""The ZMTP session without a socket, on CPython: byte by byte, and what a bad server sends."""

import importlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

zmtp = importlib.import_module("headtail_mcu.zmtp")
mechanisms = importlib.import_module("headtail_mcu.mechanisms")
errors = importlib.import_module("headtail_mcu.errors")

GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01NULL" + bytes(48)
READY = b"\x04\x1c\x05READY\x0bSocket-Type\x00\x00\x00\x06ROUTER"


def session(**options: Any) -> Any:
    """A session whose handshake is done."""
    found = zmtp.Session(mechanisms.Null(), identity=b"me", **options)
    found.receive(GREETING + READY, 0)
    assert found.ready
    found.to_send()
    return found


def test_what_a_dealer_says_first() -> None:
    found = zmtp.Session(mechanisms.Null(), identity=b"")
    assert found.to_send() == GREETING
    found.receive(GREETING, 0)
    # RFC 37: a READY command with two properties.
    assert found.to_send() == (
        b"\x04\x29\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER\x08Identity\x00\x00\x00\x00"
    )
    assert not found.ready


@settings(deadline=None)
@given(st.lists(st.lists(st.binary(max_size=600), min_size=1, max_size=4), max_size=5))
def test_messages_in_pieces_of_any_size(messages: list[list[bytes]]) -> None:
    stream = GREETING + READY
    for parts in messages:
        for index, part in enumerate(parts):
            stream += zmtp.frame(index < len(parts) - 1, part)
    for step in (1, 7, 100, len(stream)):
        found = zmtp.Session(mechanisms.Null())
        for at in range(0, len(stream), step):
            found.receive(stream[at : at + step], 0)
        came = iter(found.next_message, None)
        assert [[bytes(part) for part in parts] for parts in came] == messages


def test_many_messages_wait_their_turn() -> None:
    found = session()
    found.receive(b"".join(zmtp.frame(0, bytes((i,))) for i in range(100)), 0)
    assert [bytes(m[0])[0] for m in iter(found.next_message, None)] == list(range(100))


def test_it_sends_parts_and_long_frames() -> None:
    found = session()
    found.send([b"a", bytes(256)])
    assert found.to_send() == b"\x01\x01a\x02" + (256).to_bytes(8, "big") + bytes(256)
    assert found.to_send() == b""


def test_nothing_is_sent_before_the_handshake() -> None:
    with pytest.raises(errors.LinkError):
        zmtp.Session(mechanisms.Null()).send([b"early"])


@pytest.mark.parametrize(
    ("stream", "error"),
    [
        (b"HTTP/1.1 400 Bad Request", "not a ZeroMQ server"),
        (GREETING[:10] + b"\x01" + GREETING[11:], "ZMTP 1"),
        (GREETING[:12] + b"CURVE" + bytes(47), "wants CURVE"),
        (GREETING + b"\x00\x01x", "before the handshake"),
        (GREETING + b"\x04\x0a\x05ERROR\x03bad", "refused this node: bad"),
        (GREETING + b"\x04\x09^RROR\x03400", "refused this node: 400"),
        (GREETING + b"\x04\x06\x05HELLO", "in the handshake"),
        (GREETING + b"\x04\x00", "without a name"),
        (GREETING + b"\x04\x01\x09", "without a name"),
        (GREETING + READY[:-6] + b"DEALER".replace(b"DEALER", b"XXPULL"), "can't talk to a XXPULL"),
        (GREETING + b"\x04\x0b\x05READY\x01a\x00\x00\xff", "too early"),
        (GREETING + READY + b"\x08\x00", "flags 8"),
        (GREETING + READY + b"\x05\x00", "flags 5"),
        (GREETING + READY + b"\x02" + b"\x7f" + bytes(7), "allowed"),
        (GREETING + READY + b"\x01\x00" * 33, "more than 32 parts"),
        (b"", "closed|hung up"),
    ],
)
def test_what_a_bad_server_sends(stream: bytes, error: str) -> None:
    with pytest.raises(errors.LinkError, match=error):
        zmtp.Session(mechanisms.Null()).receive(stream, 0)


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_noise_is_an_error_or_messages(noise: bytes) -> None:
    found = session()
    try:
        found.receive(b"\x00\x00" + noise, 0)
    except errors.LinkError:
        return
    while found.next_message() is not None:
        pass


def test_it_answers_a_ping_with_its_context() -> None:
    found = session()
    found.receive(zmtp.frame(zmtp.COMMAND, b"\x04PING\x00\x0acontext"), 0)
    assert found.to_send() == zmtp.frame(zmtp.COMMAND, b"\x04PONGcontext")


def test_it_asks_for_a_sign_of_life_and_gives_up_after_three_times_as_long() -> None:
    found = session(heartbeat_ms=1000)
    assert found.on_timer(500) == 500
    assert found.to_send() == b""
    assert found.on_timer(1000) == 1000
    assert found.to_send() == zmtp.frame(zmtp.COMMAND, b"\x04PING\x00\x1e")
    found.receive(zmtp.frame(zmtp.COMMAND, b"\x04PONG"), 1500)
    assert found.on_timer(1600) == 900
    assert found.on_timer(2600) > 0
    assert found.on_timer(3700) > 0
    with pytest.raises(errors.LinkError, match="no sign of life"):
        found.on_timer(4500)


def test_without_heartbeats_there_is_no_timer() -> None:
    assert session().on_timer(10**9) is None


def test_plain_goes_through_its_steps() -> None:
    found = zmtp.Session(mechanisms.Plain(b"node", b"pw"))
    found.receive(GREETING[:12] + b"PLAIN" + bytes(47), 0)
    assert found.to_send()[64:] == b"\x04\x0e\x05HELLO\x04node\x02pw"
    found.receive(b"\x04\x08\x07WELCOME", 0)
    assert found.to_send()[2:11] == b"\x08INITIATE"
    with pytest.raises(errors.LinkError, match="in the handshake"):
        found.receive(b"\x04\x08\x07WELCOME", 0)
    with pytest.raises(ValueError, match="255"):
        mechanisms.Plain(bytes(256), b"")
