"""When a group should have an instance though nothing asks for it yet.

announced   somebody said that a request is due: a head that starts announces its tail
expected    the histogram of its idle times says that one is likely
"""

import math
from typing import Final

from headtail_cloud.instances.idleness import IdleTimes

_EARLY: Final = 1.5
"""Of the time that a start is expected to take, how early it begins."""
_PATIENCE_S: Final = 5.0
"""How long an announced request may be late before nobody waits for it."""


class Prewarm:
    """Of one group. `keep_alive_s`: how long it stays where the histogram says nothing."""

    def __init__(self, *, keep_alive_s: float, times: IdleTimes | None = None) -> None:
        self._keep_alive_s = keep_alive_s
        self._times = times or IdleTimes()
        self._idle_since: float | None = None
        self._due_from = math.inf
        self._due_until = -math.inf

    def __repr__(self) -> str:
        return f"<Prewarm {self._times!r}>"

    def announced(self, due_in_s: float, now: float) -> None:
        """A request is due then."""
        due_at = now + max(0.0, due_in_s)
        expired = self._due_until < now
        self._due_from = due_at if expired else min(self._due_from, due_at)
        self._due_until = (
            due_at + _PATIENCE_S if expired else max(self._due_until, due_at + _PATIENCE_S)
        )

    def used(self, now: float) -> None:
        """It is in use from now on."""
        if self._idle_since is not None:
            self._times.add(now - self._idle_since)
        self._idle_since = None

    def idle(self, now: float) -> None:
        """It is idle from now on."""
        if self._idle_since is None:
            self._idle_since = now

    def wanted(self, start_s: float, now: float) -> bool:
        """Whether an instance should be there, or be starting, that takes `start_s` to start."""
        return any(start - _EARLY * start_s <= now < end for start, end in self._windows(now))

    def next_timer(self, start_s: float, now: float) -> float | None:
        """When `wanted` may change its mind."""
        edges = [
            edge
            for start, end in self._windows(now)
            for edge in (start - _EARLY * start_s, end)
            if edge > now
        ]
        return min(edges, default=None)

    def _windows(self, now: float) -> list[tuple[float, float]]:
        windows = []
        if now < self._due_until:
            windows.append((self._due_from, self._due_until))
        if self._idle_since is not None:
            window = self._times.window()
            if window is None:
                windows.append((self._idle_since, self._idle_since + self._keep_alive_s))
            else:
                begin, end = self._idle_since + window.from_s, self._idle_since + window.until_s
                windows.append((begin, end))
        return windows
