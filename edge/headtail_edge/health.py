"""What an orchestrator may ask an edge: does it live, and can it serve?"""

from typing import Final, Protocol

from headtail_fabric.clock import Clock

_STUCK_S: Final = 10.0
"""The server's loop turns at least a few times a second."""


class Crew(Protocol):
    @property
    def dead(self) -> int:
        """Workers that have ended although nobody closed the queue."""
        ...


class Health:
    """Told by the daemon how it goes; asked from other threads.

    It lives while the server's loop turns and no worker is lost: else it should be restarted. It
    can serve from when its bundles are loaded until it is stopped: else it should get no traffic.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._turned_at: float | None = None
        self._crew: Crew | None = None
        self._stopping = False

    def serving(self, crew: Crew) -> None:
        """Bundles are loaded and workers started."""
        self._turned_at = self._clock.now()
        self._crew = crew

    def turned(self) -> None:
        """The server's loop has turned."""
        self._turned_at = self._clock.now()

    def stopping(self) -> None:
        """What was accepted is being finished, nothing more is."""
        self._stopping = True

    def alive(self) -> str | None:
        """None, or why the edge should be restarted."""
        if self._turned_at is not None:
            silent_s = self._clock.now() - self._turned_at
            if silent_s > _STUCK_S:
                return f"the server has been stuck for {silent_s:.0f} s"
        if self._crew is not None and not self._stopping and (dead := self._crew.dead):
            return f"{dead} workers have ended"
        return None

    def ready(self) -> str | None:
        """None, or why the edge should get no requests."""
        if self._stopping:
            return "stopping"
        if self._crew is None:
            return "starting"
        return self.alive()
