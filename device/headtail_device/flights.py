"""The frames at the edge, and those it still has although they were answered here in time."""

from dataclasses import dataclass

from headtail_device.head import Encoded
from headtail_device.placement import Remote
from headtail_device.source.frame import Frame


@dataclass(frozen=True, slots=True, kw_only=True)
class Flight:
    """One frame's request. `due_at`: when it is answered here, to be in time."""

    frame: Frame
    way: Remote
    encoded: Encoded
    due_at: float


class Flights:
    """Flights by the ids of their requests. Each leaves once."""

    def __init__(self) -> None:
        self._flights: dict[int, Flight] = {}
        self._late: set[int] = set()
        self.late_answers = 0

    def __len__(self) -> int:
        return len(self._flights)

    def __contains__(self, request_id: int) -> bool:
        return request_id in self._flights

    def due_in_s(self, now: float) -> float | None:
        """How long until one is overdue, None when there is none."""
        waits = (flight.due_at - now for flight in self._flights.values())
        return max(0.0, min(waits)) if self._flights else None

    def add(self, request_id: int, flight: Flight) -> None:
        """A request is on its way."""
        self._flights[request_id] = flight

    def end(self, request_id: int, *, answered: bool = False) -> Flight | None:
        """The request has its event; None when its frame has been answered here, or is not
        known. An answer to such a one is counted."""
        if request_id in self._late:
            self._late.remove(request_id)
            self.late_answers += answered
        return self._flights.pop(request_id, None)

    def overdue(self, now: float) -> list[Flight]:
        """Takes out those that must be answered here now; their requests go on, for what has been
        sent can't be called back, and their answers tell how late the edge is."""
        due = [one for one, flight in self._flights.items() if now >= flight.due_at]
        self._late.update(due)
        return [self._flights.pop(request_id) for request_id in due]

    def clear(self) -> tuple[list[int], list[Flight]]:
        """Takes out everything: the requests to forget, and the frames without an outcome."""
        requests, flights = [*self._flights, *self._late], list(self._flights.values())
        self._flights.clear()
        self._late.clear()
        return requests, flights
