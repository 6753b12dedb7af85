"""Which of several edges to use. Sans-IO: what happened and times go in, a choice comes out.

An edge costs its round trip and the time that a request waits there; what it last said of its queue
counts half as much each second. Another edge is preferred only while it is better by a quarter and
by some milliseconds, for two seconds on end: two that are alike do not take turns. An edge that is
gone or lacks the bundle is not a candidate. One that asked for a pause or failed a request is left
alone for that while, or for one that doubles each time, as long as there is another.
"""

from dataclasses import dataclass
from typing import Final

from headtail_fabric.wire import Hints

_BETTER_BY: Final = 0.75
_BETTER_BY_S: Final = 0.005
_HOLD_S: Final = 2.0
_HINT_HALF_LIFE_S: Final = 1.0
_UNKNOWN_RTT_S: Final = 0.05
_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 60.0


@dataclass(slots=True)
class _Edge:
    connected: bool = False
    serves: bool = False
    rtt_s: float | None = None
    queue_s: float = 0.0
    hinted_at: float = 0.0
    avoid_until: float = float("-inf")
    pause_s: float = _FIRST_PAUSE_S

    def cost_s(self, now: float) -> float:
        """Seconds until an answer could come, but for what the request itself takes."""
        aged: float = 0.5 ** ((now - self.hinted_at) / _HINT_HALF_LIFE_S)
        return (_UNKNOWN_RTT_S if self.rtt_s is None else self.rtt_s) + self.queue_s * aged

    @property
    def there(self) -> bool:
        return self.connected and self.serves

    def usable(self, now: float) -> bool:
        return self.there and now >= self.avoid_until


class EdgeChooser:
    """Edges are numbered as they are listed; of equals the first is used."""

    def __init__(self, count: int) -> None:
        self._edges = [_Edge() for _ in range(count)]
        self._current: int | None = None
        self._rival: int | None = None
        self._rival_since = 0.0

    def __repr__(self) -> str:
        up = [number for number, edge in enumerate(self._edges) if edge.connected]
        return f"EdgeChooser(current={self._current}, connected={up})"

    def connected(self, edge: int, *, serves: bool) -> None:
        """A session stands; `serves`: the edge has the bundle."""
        self._edges[edge].connected = True
        self._edges[edge].serves = serves
        self._edges[edge].avoid_until = float("-inf")

    def disconnected(self, edge: int) -> None:
        """It can't be reached. What was known of its load and route is forgotten."""
        known = self._edges[edge]
        known.connected, known.queue_s, known.rtt_s = False, 0.0, None

    def serving(self, edge: int, *, serves: bool) -> None:
        """It has the bundle now, or proved not to."""
        self._edges[edge].serves = serves

    def answered(self, edge: int) -> None:
        """A request came back: past failures are forgiven."""
        self._edges[edge].pause_s = _FIRST_PAUSE_S

    def told(self, edge: int, hints: Hints, now: float) -> None:
        """What it said of its load."""
        self._edges[edge].queue_s = hints.queue_ms / 1000
        self._edges[edge].hinted_at = now

    def measured(self, edge: int, rtt_s: float | None) -> None:
        """Its round trip, None when it is not known."""
        self._edges[edge].rtt_s = rtt_s

    def refused(self, edge: int, retry_after_s: float, now: float) -> None:
        """It was too busy, and asked for a pause."""
        known = self._edges[edge]
        known.avoid_until = max(known.avoid_until, now + retry_after_s)

    def failed(self, edge: int, now: float) -> None:
        """It failed a request that another may well answer."""
        known = self._edges[edge]
        known.avoid_until = now + known.pause_s
        known.pause_s = min(2 * known.pause_s, _LONGEST_PAUSE_S)

    def choose(self, now: float) -> int | None:
        """The edge to use from now on; None when there is none."""
        best = self._best(now)
        current = self._current
        if best is None:
            self._turn_to(self._least_avoided())
        elif current is None or not self._edges[current].usable(now):
            self._turn_to(best)
        elif not self._clearly_better(best, current, now):
            self._rival = None
        elif best != self._rival:
            self._rival, self._rival_since = best, now
        elif now - self._rival_since >= _HOLD_S:
            self._turn_to(best)
        return self._current

    def another(self, but: frozenset[int], now: float) -> int | None:
        """The best edge that is not one of `but`, for one request; the choice is not changed."""
        return self._best(now, but)

    def _best(self, now: float, but: frozenset[int] = frozenset()) -> int | None:
        usable = [
            number
            for number, edge in enumerate(self._edges)
            if edge.usable(now) and number not in but
        ]
        return min(usable, key=lambda number: self._edges[number].cost_s(now), default=None)

    def _least_avoided(self) -> int | None:
        """Of those that are there and want to be left alone."""
        there = [number for number, edge in enumerate(self._edges) if edge.there]
        return min(there, key=lambda number: self._edges[number].avoid_until, default=None)

    def _clearly_better(self, best: int, current: int, now: float) -> bool:
        cost_s, present_s = self._edges[best].cost_s(now), self._edges[current].cost_s(now)
        return cost_s < _BETTER_BY * present_s and cost_s < present_s - _BETTER_BY_S

    def _turn_to(self, edge: int | None) -> None:
        self._current, self._rival = edge, None
