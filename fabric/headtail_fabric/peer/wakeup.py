"""Waking a thread that waits in a ZeroMQ poll."""

import contextlib
import socket


class Wakeup:
    """A self-pipe: `wake` from any thread makes `fileno` readable until `clear`."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)

    def fileno(self) -> int:
        return self._reader.fileno()

    def wake(self) -> None:
        # Full means that the sleeper has plenty of wake-ups ahead; closed, that nobody sleeps.
        with contextlib.suppress(BlockingIOError, OSError):
            self._writer.send(b"\0")

    def clear(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._reader.recv(4096):
                pass

    def close(self) -> None:
        self._reader.close()
        self._writer.close()
