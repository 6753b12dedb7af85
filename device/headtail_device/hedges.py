"""Frames that are computed here while their request is still out: whoever is first answers.

(Dean and Barroso, "The Tail at Scale", CACM 2013: a second request after the 95th percentile of the
first; here it goes to the device itself.)
"""

from collections import deque
from dataclasses import dataclass
from typing import Final

from headtail_device.flights import Flights
from headtail_device.whole import Computed, WholeModel


@dataclass(frozen=True, slots=True, kw_only=True)
class HedgeCount:
    """`won`: those that this device answered before the edge."""

    started: int = 0
    won: int = 0


NO_HEDGES: Final = HedgeCount()


class Hedges:
    """One at a time. What was computed waits until the events that came meanwhile are heard: an
    answer of the edge that is there already is the first."""

    def __init__(self, whole: WholeModel, flights: Flights) -> None:
        self._whole = whole
        self._flights = flights
        self._waiting: deque[int] = deque()
        self._ready: tuple[int, Computed] | None = None
        self.started = 0

    def __len__(self) -> int:
        """How many are to be computed, or to be handed out."""
        return len(self._waiting) + (self._ready is not None)

    def add(self, request_id: int) -> None:
        """Its answer is overdue by the forecast."""
        self._waiting.append(request_id)

    def work(self) -> tuple[int, Computed] | None:
        """Compute one, or hand out what was computed before."""
        if self._ready is not None:
            ready, self._ready = self._ready, None
            return ready
        request_id = self._waiting.popleft()
        made = self._whole.run(self._flights[request_id].frame.data)
        self.started += 1
        if isinstance(made, Computed):
            self._ready = (request_id, made)
        return None

    def end(self, request_id: int) -> Computed | None:
        """The frame is no longer at the edge; returns what was computed for it."""
        if request_id in self._waiting:
            self._waiting.remove(request_id)
        if self._ready is None or self._ready[0] != request_id:
            return None
        computed, self._ready = self._ready[1], None
        return computed
