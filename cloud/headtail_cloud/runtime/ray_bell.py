"""How the asyncio loop learns of an actor's death: as of a process's, by a descriptor."""

import os
import threading


class DeathBell:
    """A descriptor that can be read once it has been rung. Safe to ring from any thread, also when
    it is closed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open = True
        self.rung = False
        self.handle = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def __repr__(self) -> str:
        return f"<DeathBell {'rung' if self.rung else 'silent'}>"

    def ring(self) -> None:
        with self._lock:
            self.rung = True
            if self._open:
                os.eventfd_write(self.handle, 1)

    def close(self) -> None:
        with self._lock:
            if self._open:
                self._open = False
                os.close(self.handle)
