"""The frames at the edge, and those it still has although they were answered here in time."""

from dataclasses import dataclass

from headtail_device.decision import Decision
from headtail_device.head import Encoded
from headtail_device.placement import Remote
from headtail_device.source.frame import Frame


@dataclass(frozen=True, slots=True, kw_only=True)
class Flight:
    """One frame's request. `due_at`: when it is answered here, to be in time. `hedge_at`: when it
    is computed here as well; None for never."""

    frame: Frame
    decision: Decision
    way: Remote
    encoded: Encoded
    sent_at: float
    due_at: float
    hedge_at: float | None = None


class Flights:
    """Flights by the ids of their requests. Each leaves once."""

    def __init__(self) -> None:
        self._flights: dict[int, Flight] = {}
        self._late: set[int] = set()
        self._hedged: set[int] = set()
        self.late_answers = 0

    def __len__(self) -> int:
        return len(self._flights)

    def __contains__(self, request_id: int) -> bool:
        return request_id in self._flights

    def __getitem__(self, request_id: int) -> Flight:
        return self._flights[request_id]

    def oldest_s(self, now: float) -> float:
        """For how long the first of them has been on its way; 0 without one."""
        return max((now - flight.sent_at for flight in self._flights.values()), default=0.0)

    def due_in_s(self, now: float) -> float | None:
        """How long until one is overdue or to be hedged, None when there is none."""
        moments = [flight.due_at for flight in self._flights.values()]
        moments += [
            flight.hedge_at
            for request_id, flight in self._flights.items()
            if flight.hedge_at is not None and request_id not in self._hedged
        ]
        return max(0.0, min(moments) - now) if moments else None

    def add(self, request_id: int, flight: Flight) -> None:
        """A request is on its way."""
        self._flights[request_id] = flight

    def end(self, request_id: int, *, answered: bool = False) -> Flight | None:
        """The request has its event; None when its frame has been answered here, or is not
        known. An answer to such a one is counted."""
        if request_id in self._late:
            self._late.remove(request_id)
            self.late_answers += answered
        return self._take(request_id)

    def overtake(self, request_id: int) -> Flight | None:
        """Takes out one that is answered here; its request goes on, for what has been sent can't be
        called back, and its answer tells how late the edge is."""
        flight = self._take(request_id)
        if flight is not None:
            self._late.add(request_id)
        return flight

    def overdue(self, now: float) -> list[tuple[int, Flight]]:
        """Takes out those that must be answered here now, as `overtake` does."""
        due = [one for one, flight in self._flights.items() if now >= flight.due_at]
        return [(one, flight) for one in due if (flight := self.overtake(one)) is not None]

    def to_hedge(self, now: float) -> list[int]:
        """Requests that are to be computed here as well from now on; told once each."""
        found = [
            request_id
            for request_id, flight in self._flights.items()
            if flight.hedge_at is not None
            and now >= flight.hedge_at
            and request_id not in self._hedged
        ]
        self._hedged.update(found)
        return found

    def clear(self) -> tuple[list[int], list[tuple[int, Flight]]]:
        """Takes out everything: the requests to forget, and the frames without an outcome."""
        requests, flights = [*self._flights, *self._late], list(self._flights.items())
        self._flights.clear()
        self._late.clear()
        self._hedged.clear()
        return requests, flights

    def _take(self, request_id: int) -> Flight | None:
        self._hedged.discard(request_id)
        return self._flights.pop(request_id, None)
