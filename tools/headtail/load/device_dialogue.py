"""A client of an edge: the same request again and again, over ZMTP 3.0 without a library.

(RFC 23, https://rfc.zeromq.org/spec/23: a greeting, READY with the NULL mechanism, then frames.
Heartbeats of RFC 37 are answered.)
"""

import secrets
from collections.abc import Iterator
from enum import Enum, auto
from typing import Final

from headtail.load.closed_loop import Answer
from headtail.load.payload import Payload
from headtail_fabric import wire

_DEADLINE_MS: Final = 60_000
_GREETING: Final = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
_MORE, _LONG, _COMMAND = 1, 2, 4
_PING: Final = b"\x04PING"
_PONG: Final = b"\x04PONG"
_TTL_BYTES: Final = 2


class _State(Enum):
    GREETING = auto()
    READY = auto()
    HELLO = auto()
    OPEN = auto()


class DeviceDialogue:
    """A DEALER that says hello and asks for the tail of `payload`."""

    def __init__(self, payload: Payload) -> None:
        self._payload = payload
        self._state = _State.GREETING
        self._heard = bytearray()
        self._parts: list[bytes] = []
        self._asked = 0

    @property
    def is_open(self) -> bool:
        return self._state is _State.OPEN

    def open(self) -> bytes:
        return _GREETING

    def ask(self) -> tuple[int, bytes]:
        self._asked += 1
        payload = self._payload
        request = wire.Request(
            id=self._asked,
            bundle=payload.digest,
            cut=payload.cut,
            remaining_ms=_DEADLINE_MS,
            attempt=1,
            tensors=payload.tensors,
        )
        return self._asked, _message(wire.encode_checked(request, payload.buffers))

    def beat(self) -> bytes:
        return _message(wire.encode(wire.Ping(nonce=1)))

    def hear(self, data: bytes) -> tuple[list[Answer], bytes]:
        self._heard += data
        answers: list[Answer] = []
        reply = b""
        if self._state is _State.GREETING:
            if len(self._heard) < len(_GREETING):
                return answers, reply
            del self._heard[: len(_GREETING)]
            reply = _frame(_ready(), _COMMAND)
            self._state = _State.READY
        for flags, body in self._frames():
            if flags & _COMMAND:
                reply += self._commanded(body)
                continue
            self._parts.append(body)
            if not flags & _MORE:
                parts, self._parts = self._parts, []
                answers += self._told(wire.decode(parts)[0])
        return answers, reply

    def _commanded(self, body: bytes) -> bytes:
        if body.startswith(_PING):
            return _frame(_PONG + body[len(_PING) + _TTL_BYTES :], _COMMAND)
        if self._state is not _State.READY:
            return b""
        self._state = _State.HELLO
        hello = wire.Hello(session=secrets.token_bytes(16), name="bench", agent="bench")
        return _message(wire.encode(hello))

    def _told(self, message: wire.Message) -> list[Answer]:
        match message:
            case wire.Result():
                return [Answer(message.id, message.hints.batch)]
            case wire.Offer():
                self._state = _State.OPEN
                return []
            case wire.Pong():
                return []
            case _:
                raise RuntimeError(f"an answer was expected, came: {message}")

    def _frames(self) -> Iterator[tuple[int, bytes]]:
        """Take out whole frames."""
        heard, at = self._heard, 0
        while len(heard) - at >= 2:
            flags = heard[at]
            start = at + (9 if flags & _LONG else 2)
            if len(heard) < start:
                break
            end = start + int.from_bytes(heard[at + 1 : start], "big")
            if len(heard) < end:
                break
            yield flags, bytes(heard[start:end])
            at = end
        del heard[:at]


def devices(count: int, payload: Payload) -> list[DeviceDialogue]:
    """As many as that."""
    return [DeviceDialogue(payload) for _ in range(count)]


def port_of(endpoint: str) -> int:
    """The port of `tcp://host:port`."""
    return int(endpoint.rpartition(":")[2])


def _ready() -> bytes:
    kind = b"DEALER"
    return b"\x05READY" + b"\x0bSocket-Type" + len(kind).to_bytes(4, "big") + kind


def _message(frames: list[wire.Buffer]) -> bytes:
    last = len(frames) - 1
    return b"".join(
        _frame(bytes(frame), _MORE if number < last else 0) for number, frame in enumerate(frames)
    )


def _frame(body: bytes, flags: int) -> bytes:
    if len(body) < 256:
        return bytes((flags, len(body))) + body
    return bytes((flags | _LONG,)) + len(body).to_bytes(8, "big") + body
