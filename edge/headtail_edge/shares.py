"""Who has had how much of the workers: a virtual counter of service for each flow.

A flow is whose requests compete with others' as one: a tenant, or a device that belongs to none.
Served seconds, divided by the flow's weight, move its counter on. A flow whose counter is more than
`slack_s` ahead of the one that is furthest behind, of those that wait, has had its share for now.
A flow that comes back begins where that one stands: what was not used is not saved up.

After the virtual token counter of Sheng et al., *Fairness in Serving Large Language Models*, OSDI
2024, with seconds in place of tokens, and a slack within which deadlines decide.
"""

from typing import Final

_KEPT_IDLE: Final = 256
_NOBODY: Final[frozenset[str]] = frozenset()


class Shares:
    """The counters. Not thread-safe."""

    def __init__(self, *, slack_s: float) -> None:
        self._slack_s = slack_s
        self._floor_s = 0.0
        self._risen = True
        """Whether the floor is where the one furthest behind stands: only who stands on it can
        move it."""
        self._waiting: dict[str, float] = {}
        self._idle: dict[str, float] = {}
        self._weights: dict[str, float] = {}

    def __repr__(self) -> str:
        leads = ", ".join(f"{flow!r}: {self.lead_s(flow):.3f} s" for flow in self._waiting)
        return f"<Shares {leads or 'nobody waits'}>"

    def enter(self, flow: str, weight: float) -> None:
        """The flow has something waiting, and had nothing before."""
        floor_s = self._rise()
        self._risen = bool(self._waiting)
        self._waiting[flow] = max(floor_s, self._idle.pop(flow, floor_s))
        self._weights[flow] = weight

    def leave(self, flow: str) -> None:
        """Nothing of the flow waits any more."""
        floor_s = self._rise()
        counter = self._idle[flow] = self._waiting.pop(flow)
        self._risen = counter > floor_s
        del self._weights[flow]
        if len(self._idle) > _KEPT_IDLE:
            self._idle = {one: counter for one, counter in self._idle.items() if counter > floor_s}

    def charge(self, flow: str, seconds: float) -> None:
        """A flow that waits is served for so long."""
        counter = self._waiting[flow]
        self._risen = self._risen and counter > self._floor_s
        self._waiting[flow] = counter + seconds / self._weights[flow]

    def lead_s(self, flow: str) -> float:
        """How far a flow that waits is ahead of the one furthest behind, in seconds of service at
        weight 1."""
        return self._waiting[flow] - self._rise()

    def is_ahead(self, flow: str) -> bool:
        """Whether a flow that waits has had its share for now."""
        return self._waiting[flow] > self._rise() + self._slack_s

    def ahead(self) -> frozenset[str]:
        """The flows that have had their share for now."""
        limit = self._rise() + self._slack_s
        if not self._waiting or max(self._waiting.values()) <= limit:
            return _NOBODY
        return frozenset(flow for flow, counter in self._waiting.items() if counter > limit)

    def before_s(self, flow: str, own_s: float) -> dict[str, tuple[float, float]]:
        """How long each flow that waits is served at least, if it has so much to do, and at most,
        before `flow` has been served for `own_s` more. `flow` need not wait yet, and has the weight
        of 1 then."""
        floor_s = self._rise()
        counter = self._waiting.get(flow, max(floor_s, self._idle.get(flow, floor_s)))
        then = counter + own_s / self._weights.get(flow, 1.0)
        return {
            other: (
                max(0.0, then - self._slack_s - counter) * self._weights[other],
                max(0.0, then + self._slack_s - counter) * self._weights[other],
            )
            for other, counter in self._waiting.items()
        }

    def _rise(self) -> float:
        """The counter of the one furthest behind; it never falls."""
        if not self._risen and self._waiting:
            self._floor_s = max(self._floor_s, min(self._waiting.values()))
            self._risen = True
        return self._floor_s
