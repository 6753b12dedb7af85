"""A whole node on an emulated Cortex-M3, in a heap as small as one likes, and its gateway here."""

import contextlib
import socket
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol, Self

import zmq

from headtail.boards.checkout import script
from headtail.boards.emulated import BoardError, EmulatedBoard
from headtail_edge.gateway import messages

PORTS: Final = {
    "time": """
import __main__ as host
def ticks_ms(): return host.mark(host.NOW)
def ticks_us(): return 1000 * host.mark(host.NOW)
def ticks_diff(a, b): return a - b
def sleep_ms(ms): host.set_mark(host.NOW, host.mark(host.NOW) + ms)
""",
    "select": """
import __main__ as host, time
POLLIN = 1
class poll:
    def register(self, *_): pass
    def poll(self, ms):
        if host.waiting(): return [1]
        time.sleep_ms(ms)
        return []
""",
    "socket": """
import __main__ as host
SOCK_STREAM = SOCK_DGRAM = AF_INET = 0
def getaddrinfo(*_): return [(0, 0, 0, "", ("", 0))]
class socket:
    def __init__(self, *_): pass
    def connect(self, _): pass
    def settimeout(self, _): pass
    def setsockopt(self, *_): pass
    def setblocking(self, _): pass
    def close(self): pass
    def recv(self, most): return host.came(most)
    def read(self, most): return host.came(most) or None
    def send(self, data): return host.send(data)
    write = send
""",
    "os": """
from uos import *
from random import getrandbits
def urandom(n): return bytes(getrandbits(8) for _ in range(n))
""",
    # AES is in C where there is any; here only its size matters, and both ends have this one.
    "cryptolib": """
class aes:
    def __init__(self, *_): pass
    def encrypt(self, data): return bytes(len(data))
""",
}
"""What MicroPython's port for the emulated board lacks and every board has in C."""
_PIECE: Final = 4096
_GIVEN: Final = 512
_LONGEST_S: Final = 120.0
_TURNS: Final = 40
_ROUNDS: Final = 200


class Peer(Protocol):
    """The gateway's end of a link."""

    def take(self, data: bytes) -> list[bytes]:
        """Bytes of the node; the messages that are now whole."""
        ...

    def make(self, message: bytes) -> bytes:
        """A message as bytes for the node."""
        ...

    def rest(self) -> bytes:
        """What else goes to the node."""
        ...

    def close(self) -> None:
        """Nothing more will come."""
        ...


class EmulatedNode:
    """Boots with so many bytes of heap; a context manager. Raises BoardError where they are too
    few for whatever is asked of it."""

    def __init__(self, firmware: Path, heap: int, files: Mapping[str, bytes]) -> None:
        self._board = EmulatedBoard(firmware)
        try:
            self._board.run(script("node_turns.py").read_text(), timeout_s=_LONGEST_S)
            self._put({f"{name}.py": text.encode() for name, text in PORTS.items()})
            left = int(self._run(f"prepare({heap})"))
            if left < heap:
                raise BoardError(f"{left} bytes are free, {heap} were asked for")
            self._put(files)
            self._run("begin()")
        except BaseException:
            self.__exit__(None, None, None)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._board.__exit__(kind, error, trace)

    def live(self, gateway: "Gateway", *, settled: int) -> int:
        """Until so many records are settled: bytes of the heap that are free then."""
        for _ in range(_ROUNDS):
            self._run(f"turns({_TURNS})")
            answer = gateway.hear(bytes.fromhex(self._run("said()")))
            for at in range(0, len(answer), _GIVEN):
                self._run(f"give({answer[at : at + _GIVEN].hex()!r})")
            free, acked = self._run("state()").split()
            if int(acked) >= settled:
                return int(free)
        raise BoardError(f"{acked} of {settled} records settled after {_ROUNDS} rounds")

    def _put(self, files: Mapping[str, bytes]) -> None:
        for name, data in files.items():
            self._run(f"put({name!r}, {len(data)})")
            for at in range(0, len(data), _PIECE):
                self._run(f"fill({name!r}, {at}, {data[at : at + _PIECE]!r})")

    def _run(self, text: str) -> str:
        """What it printed, but for what the node says on its console."""
        printed = self._board.run(text, timeout_s=_LONGEST_S)
        lines = printed.splitlines()
        if any("MemoryError" in line for line in lines):
            raise BoardError(printed)
        return "".join(line for line in lines if not line.startswith("#"))


class Gateway:
    """Settles what the node says a window of records at a time: most of them wait just before."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self.heard: list[Any] = []

    def hear(self, said: bytes) -> bytes:
        """What the node is to get for the bytes that it said."""
        answers, newest = [], None
        for data in self._peer.take(said):
            message = messages.decode(data)
            self.heard.append(message)
            if isinstance(message, messages.Hello):
                answers.append(messages.welcome(message.boot, 1.8e9))
            elif isinstance(message, messages.Record):
                newest = message
                if isinstance(messages.decode_payload(message.payload), messages.Features):
                    answered = messages.Status.ANSWERED
                    answers.append(
                        messages.answer(message.boot, message.sequence, answered, 3, 0.9)
                    )
        if newest is not None:
            answers.append(messages.ack(newest.boot, newest.sequence))
        return b"".join(self._peer.make(one) for one in answers) + self._peer.rest()


class Packets:
    """COBS packets, sealed where there is a key: the firmware's own modules at the other end."""

    def __init__(self, psk: bytes | None = None, key_id: int = 0) -> None:
        serial_link = import_module("headtail_mcu.serial_link")
        self._encode, self._decoder = serial_link.encode, serial_link.Decoder()
        self._sealer = self._opener = None
        if psk is not None:
            envelope = import_module("headtail_mcu.envelope")
            self._sealer = envelope.Sealer(psk, key_id, 1, envelope.DOWN)
            self._opener = envelope.Opener(psk, key_id, envelope.UP)

    def take(self, data: bytes) -> list[bytes]:
        packets = self._decoder.receive(data)
        return packets if self._opener is None else [self._opener.open(one) for one in packets]

    def make(self, message: bytes) -> bytes:
        sealed = message if self._sealer is None else self._sealer.seal(message)
        return bytes(self._encode(sealed))

    def rest(self) -> bytes:
        return b""

    def close(self) -> None:
        """Nothing was opened."""


class Router:
    """ZMTP by libzmq: a ROUTER, and a connection to it that the node's bytes go through."""

    def __init__(self, secret: bytes | None = None) -> None:
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context.instance()
        self._socket = context.socket(zmq.ROUTER)
        self._socket.linger = 0
        self._socket.handshake_ivl = 0  # an emulated board takes its time
        if secret is not None:
            self._socket.curve_server = True
            self._socket.curve_secretkey = secret
        port = self._socket.bind_to_random_port("tcp://127.0.0.1")
        self._line = socket.create_connection(("127.0.0.1", port))
        self._line.settimeout(0.2)
        self._names: list[bytes] = []

    def close(self) -> None:
        self._line.close()
        self._socket.close()

    def take(self, data: bytes) -> list[bytes]:
        self._line.sendall(data)
        found = []
        while self._socket.poll(200):
            name, *parts = self._socket.recv_multipart()
            self._names = [name]
            found.append(b"".join(parts))
        return found

    def make(self, message: bytes) -> bytes:
        self._socket.send_multipart([*self._names, message])
        return b""

    def rest(self) -> bytes:
        """What libzmq has to say of its own accord, and messages that it was given."""
        came = b""
        with contextlib.suppress(TimeoutError):
            while piece := self._line.recv(65536):
                came += piece
        return came
