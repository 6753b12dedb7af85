"""The seam between those who ask (HTTP, edges) and what answers them; and who may watch."""

from typing import Protocol

from headtail_cloud.core.actions import Step
from headtail_cloud.core.request import Request
from headtail_cloud.dispatch.events import FleetAction
from headtail_cloud.dispatch.group import Key
from headtail_cloud.runtime.exchange import Exchange


class Runtime(Protocol):
    """Serves requests, wherever their engines are."""

    @property
    def alive(self) -> bool:
        """Whether requests are served: not after a bug in the scheduler."""
        ...

    def submit(self, request: Request) -> Exchange:
        """Raises ValueError when a request of that id is here."""
        ...

    def announce(self, key: Key, due_in_s: float) -> None:
        """A request for that segment, or model of texts, is due then: its head has started."""
        ...

    async def close(self, grace_s: float) -> None:
        """Accept nothing more; what was accepted has that long, then it is cancelled."""
        ...


class Watcher(Protocol):
    """Sees what happens, to measure it. Called in the loop: quick, and raises nothing."""

    def acted(self, action: FleetAction) -> None: ...

    def step_took(self, step: Step, seconds: float) -> None: ...

    def load(self, here: int, kv_usage: float | None) -> None:
        """Requests that are here, and the share of the key-value cache that is held, where there
        is one."""
        ...

    def started(self, tier: str, seconds: float) -> None:
        """An instance is there, from that tier, after that long."""
        ...

    def instances(self, running: int) -> None:
        """So many are there."""
        ...


class Unwatched:
    """Measures nothing."""

    def acted(self, action: FleetAction) -> None:
        pass

    def step_took(self, step: Step, seconds: float) -> None:
        pass

    def load(self, here: int, kv_usage: float | None) -> None:
        pass

    def started(self, tier: str, seconds: float) -> None:
        pass

    def instances(self, running: int) -> None:
        pass
