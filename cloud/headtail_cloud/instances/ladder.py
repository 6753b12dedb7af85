"""What it takes to start an instance, from each tier.

zero ----> on disk ----> zygote ----> resident ----> running
nothing    bundle and    a process    a process     an instance
           weights       with the     with the
                         modules      engine
"""

from enum import IntEnum
from typing import Final

_NEWEST_WEIGHT: Final = 0.3


class Tier(IntEnum):
    """How much of an instance is there already."""

    ZERO = 0
    ON_DISK = 1
    ZYGOTE = 2
    RESIDENT = 3
    RUNNING = 4


_FIRST_GUESS_S: Final = {
    Tier.ZERO: 10.0,
    Tier.ON_DISK: 2.0,
    Tier.ZYGOTE: 0.1,
    Tier.RESIDENT: 0.02,
    Tier.RUNNING: 0.0,
}


class Ladder:
    """Of one group of instances: a moving average of what starts took from each tier."""

    def __init__(self, tier: Tier) -> None:
        """`tier`: where its instances start from now."""
        self.tier = tier
        self._seconds: dict[Tier, float] = {}

    def __repr__(self) -> str:
        known = ", ".join(f"{t.name.lower()} {1000 * s:.0f} ms" for t, s in self._seconds.items())
        return f"<Ladder {self.tier.name.lower()}: {known or 'unmeasured'}>"

    @property
    def start_s(self) -> float:
        """Seconds that a start is expected to take."""
        return self._seconds.get(self.tier, _FIRST_GUESS_S[self.tier])

    def started(self, tier: Tier, seconds: float) -> None:
        """A start from that tier took that long."""
        known = self._seconds.get(tier, seconds)
        self._seconds[tier] = known + _NEWEST_WEIGHT * (seconds - known)
