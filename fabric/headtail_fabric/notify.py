"""How a daemon speaks with what started it: readiness out, stop signals in."""

import json
import logging
import os
import queue
import signal
import socket
import threading
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any, Final, Self, TextIO

from headtail_fabric.logs import fields

_MAX_STATUS_CHARS: Final = 512
_TIMEOUT_S: Final = 1.0

_Handler = Callable[[int, FrameType | None], Any] | int | signal.Handlers | None

log = logging.getLogger(__name__)


class Notifier:
    """systemd's readiness protocol (sd_notify(3)): datagrams to a Unix socket.

    Silent when nobody listens; a message that can't be sent is logged, for it is no reason to stop.
    """

    def __init__(self, address: str | None) -> None:
        """`address` is a path, or an abstract name that begins with `@`."""
        self._address = address

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        return cls(environment.get("NOTIFY_SOCKET") or None)

    def ready(self, status: str = "") -> None:
        """The daemon serves from now on."""
        self._send("READY=1", status)

    def stopping(self, status: str = "") -> None:
        """The daemon is about to end."""
        self._send("STOPPING=1", status)

    def status(self, status: str) -> None:
        """One line on what the daemon is doing, for `systemctl status`."""
        self._send("", status)

    def _send(self, state: str, status: str) -> None:
        if self._address is None:
            return
        # A line break in the text would begin another assignment.
        line = "".join(c if c.isprintable() else " " for c in status[:_MAX_STATUS_CHARS])
        message = "\n".join(part for part in (state, line and f"STATUS={line}") if part)
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
                channel.settimeout(_TIMEOUT_S)
                channel.sendto(message.encode(), address)
        except OSError as error:
            log.warning("systemd not notified", extra=fields(reason=error))


def announce(stream: TextIO, **values: object) -> None:
    """Write one JSON line that a parent process can wait for, such as
    `{"event": "ready", "endpoint": "tcp://127.0.0.1:5555"}`, at once."""
    stream.write(json.dumps(values) + "\n")
    stream.flush()


class StopSignal:
    """SIGTERM or SIGINT as an event, while the context lasts; a second SIGINT interrupts at once.

        with StopSignal() as stop:
            while not stop.event.is_set():
                ...

    For the main thread, which alone may set signal handlers. `event` is set by a thread of its
    own: a handler runs between any two instructions of the main thread, maybe inside
    `event.wait`, whose lock it would wait for in vain.
    """

    def __init__(self) -> None:
        self.event = threading.Event()
        self._interrupts = 0
        # The one queue whose `put` a signal handler may call: it is reentrant.
        self._received: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._relay, name="stop-signal", daemon=True)
        self._handlers_before: dict[signal.Signals, _Handler] = {}

    def __enter__(self) -> Self:
        self._thread.start()
        for number in (signal.SIGTERM, signal.SIGINT):
            self._handlers_before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._handlers_before.items():
            signal.signal(number, handler)
        self._received.put(None)
        self._thread.join()

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        self._interrupts += number == signal.SIGINT
        if number == signal.SIGINT and self._interrupts > 1:
            raise KeyboardInterrupt
        self._received.put(number)

    def _relay(self) -> None:
        if self._received.get() is not None:
            self.event.set()
