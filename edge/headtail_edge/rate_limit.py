"""How many requests a device may make: a bucket of tokens for each, filled at a steady rate."""

from dataclasses import dataclass
from typing import Final

_KEPT: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """`per_s` requests a second in the long run, `burst` of them at once."""

    per_s: float
    burst: int


class RateLimits:
    """The buckets. A device that was never heard, or not for long, has a full one.

    Not thread-safe; never looks at a clock.
    """

    def __init__(self) -> None:
        self._buckets: dict[str, tuple[float, float]] = {}
        """Tokens, and when there were so many."""

    def __repr__(self) -> str:
        return f"<RateLimits of {len(self._buckets)} devices>"

    def take(self, device: str, rate: Rate, now: float) -> float:
        """Take a token: 0 when there was one, else in how many seconds there will be."""
        tokens, then = self._buckets.get(device, (float(rate.burst), now))
        tokens = min(float(rate.burst), tokens + (now - then) * rate.per_s)
        if tokens < 1.0:
            self._buckets[device] = (tokens, now)
            return (1.0 - tokens) / rate.per_s
        self._buckets.pop(device, None)
        if len(self._buckets) >= _KEPT:
            # The one that was heard the longest ago has the fullest bucket of all.
            del self._buckets[next(iter(self._buckets))]
        self._buckets[device] = (tokens - 1.0, now)
        return 0.0
