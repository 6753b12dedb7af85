"""Many clients of one server in one thread: each asks again as soon as it is answered.

Clients of a benchmark stand for machines of their own. Here they share the server's, so they are
made to cost as little as may be, and the same for every server: a bare socket each, one thread, and
a dialogue that knows the protocol.
"""

import selectors
import socket
import statistics
import time
from collections.abc import Iterable
from typing import Final, NamedTuple, Protocol, Self

from headtail.load.served import Served, served

_READ_BYTES: Final = 256 * 1024
_SILENT_S: Final = 30.0
_BEAT_S: Final = 1.0


class Answer(NamedTuple):
    """The request that `ask` numbered so was answered; `batch` is how many were computed together,
    where the server tells."""

    number: int
    batch: int | None = None


class Dialogue(Protocol):
    """One client's side of a conversation, without its socket."""

    @property
    def is_open(self) -> bool:
        """Whether requests may be made."""
        ...

    def open(self) -> bytes:
        """What is sent first."""
        ...

    def ask(self) -> tuple[int, bytes]:
        """The next request: its number, and what is sent."""
        ...

    def beat(self) -> bytes:
        """What is sent every second, so that the server knows that the client lives."""
        ...

    def hear(self, data: bytes) -> tuple[list[Answer], bytes]:
        """What some more received bytes say, and what is sent because of them. Raises RuntimeError
        when that is anything but answers: a benchmark's own server does not fail."""
        ...


class _Client:
    def __init__(self, port: int, dialogue: Dialogue) -> None:
        self.dialogue = dialogue
        self.asked: dict[int, float] = {}
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=_SILENT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall(dialogue.open())

    def ask(self) -> None:
        number, data = self.dialogue.ask()
        self.asked[number] = time.monotonic()
        self.socket.sendall(data)

    def beat(self) -> None:
        if self.dialogue.is_open and (data := self.dialogue.beat()):
            self.socket.sendall(data)

    def hear(self) -> list[Answer]:
        data = self.socket.recv(_READ_BYTES)
        if not data:
            raise RuntimeError("the benchmark's own server closed a connection")
        answers, reply = self.dialogue.hear(data)
        if reply:
            self.socket.sendall(reply)
        return answers


class ClosedLoop:
    """A client for each of `dialogues` with the server at a port of this machine, with `in_flight`
    requests each; a context manager."""

    def __init__(self, port: int, dialogues: Iterable[Dialogue], *, in_flight: int = 1) -> None:
        self._port = port
        self._dialogues = list(dialogues)
        self._in_flight = in_flight
        self._clients: list[_Client] = []
        self._selector = selectors.DefaultSelector()
        self._heard_at = time.monotonic()
        self._beat_at = self._heard_at + _BEAT_S

    def __enter__(self) -> Self:
        try:
            for dialogue in self._dialogues:
                client = _Client(self._port, dialogue)
                self._clients.append(client)
                self._selector.register(client.socket, selectors.EVENT_READ, client)
            while not all(client.dialogue.is_open for client in self._clients):
                for client in self._ready():
                    client.hear()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()
        for client in self._clients:
            client.socket.close()

    def run(self, seconds: float) -> Served:
        """Ask for `seconds`, then wait for what is still out. Raises RuntimeError for anything that
        is no answer, and for a server that says nothing for half a minute."""
        latencies_s: list[float] = []
        batches: list[int] = []
        began_at = self._heard_at = time.monotonic()
        until = began_at + seconds
        for client in self._clients:
            for _ in range(self._in_flight):
                client.ask()
        while any(client.asked for client in self._clients):
            for client in self._ready():
                for number, batch in client.hear():
                    now = time.monotonic()
                    latencies_s.append(now - client.asked.pop(number))
                    if batch is not None:
                        batches.append(batch)
                    if now < until:
                        client.ask()
        return served(
            latencies_s,
            seconds=time.monotonic() - began_at,
            batch=statistics.mean(batches) if batches else None,
        )

    def _ready(self) -> list[_Client]:
        ready = self._selector.select(_BEAT_S)
        now = time.monotonic()
        if ready:
            self._heard_at = now
        elif now > self._heard_at + _SILENT_S:
            raise RuntimeError("the benchmark's own server said nothing for too long")
        if now >= self._beat_at:
            self._beat_at = now + _BEAT_S
            for client in self._clients:
                client.beat()
        return [key.data for key, _ in ready]
