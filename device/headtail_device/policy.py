"""The seam between whoever runs frames and whoever decides on them."""

from dataclasses import dataclass
from typing import Protocol

from headtail_device.decision import Decision, Experience
from headtail_device.placement import Local, Observation, Remote


class Policy(Protocol):
    """Decides frame by frame. Must not look at anything but what it is told."""

    def place(self, seen: Observation) -> Decision:
        """For the frame that waits now."""
        ...

    def finished(self, decision: Decision, was: Experience, now: float) -> None:
        """What became of a decision; told once each, in any order. A frame that was given up on its
        way is told of then, not when it is answered in another way."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedPolicy:
    """Always the same way to the edge while it can be had, else the device, degraded."""

    remote: Remote

    def place(self, seen: Observation) -> Decision:
        placement = self.remote if seen.edge_usable else Local(degraded=True)
        return Decision(placement=placement, decided_at=seen.now)

    def finished(self, decision: Decision, was: Experience, now: float) -> None:
        pass


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalPolicy:
    """Never the edge."""

    def place(self, seen: Observation) -> Decision:
        return Decision(placement=Local(degraded=False), decided_at=seen.now)

    def finished(self, decision: Decision, was: Experience, now: float) -> None:
        pass
