"""Waking a thread that waits in a ZeroMQ poll."""

import contextlib
import socket


class Wakeup:
    """A self-pipe: `wake` from any thread makes `fileno` readable until `clear`."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self._awake = False

    def fileno(self) -> int:
        return self._reader.fileno()

    def wake(self) -> None:
        # The flag only saves system calls: whoever loses the race writes one byte too many.
        if self._awake:
            return
        self._awake = True
        # Closed: nobody sleeps there any more.
        with contextlib.suppress(OSError):
            self._writer.send(b"\0")

    def clear(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._reader.recv(4096)
        self._awake = False

    def close(self) -> None:
        self._reader.close()
        self._writer.close()
