"""The rate of a link that changes over time: a token bucket that knows its future."""

from headtail_fabric.emulator.conditions import Direction
from headtail_fabric.emulator.trace import LinkTrace


class TokenBucket:
    """Tokens are bytes: they come at the rate of the trace, up to the burst of the moment.

    Bytes that come while there are too few tokens are served in order, each when the tokens have
    come; since the trace is known, so is that time. Times are seconds since the trace's beginning
    and never go back.
    """

    def __init__(self, trace: LinkTrace, direction: Direction) -> None:
        self._trace = trace
        self._direction = direction
        # Negative: so many bytes are still to be served.
        self._level_bytes = float(trace.at(0.0).conditions.burst_bytes)
        self._filled_to_s = 0.0
        self._free_at_s = 0.0

    def __repr__(self) -> str:
        return f"TokenBucket({self._direction.value}, free_at_s={self._free_at_s:.6f})"

    @property
    def free_at_s(self) -> float:
        """When everything taken so far has been served; infinity if the link stays down."""
        return self._free_at_s

    def take(self, size_bytes: int, now_s: float) -> float:
        """When the last of these bytes, which come now, has been served."""
        self._fill(now_s)
        self._level_bytes -= size_bytes
        self._free_at_s = max(self._free_at_s, self._served_at(now_s))
        return self._free_at_s

    def forgive(self, now_s: float) -> None:
        """Forget the bytes that are still to be served."""
        self._fill(now_s)
        self._level_bytes = max(self._level_bytes, 0.0)
        self._free_at_s = now_s

    def _fill(self, now_s: float) -> None:
        while self._filled_to_s < now_s:
            stretch = self._trace.at(self._filled_to_s)
            until_s = min(stretch.end_s, now_s)
            if stretch.conditions.outage is None:
                rate = stretch.conditions.rate_bytes_s(self._direction)
                come_bytes = rate * (until_s - self._filled_to_s)
                burst_bytes = float(stretch.conditions.burst_bytes)
                self._level_bytes = min(self._level_bytes + come_bytes, burst_bytes)
            self._filled_to_s = until_s

    def _served_at(self, now_s: float) -> float:
        lacking_bytes, at_s = max(-self._level_bytes, 0.0), now_s
        while True:
            stretch = self._trace.at(at_s)
            if stretch.conditions.outage is None:
                if lacking_bytes == 0:
                    return at_s
                rate = stretch.conditions.rate_bytes_s(self._direction)
                come_bytes = rate * (stretch.end_s - at_s)
                if come_bytes >= lacking_bytes:
                    return at_s + lacking_bytes / rate
                lacking_bytes -= come_bytes
            elif stretch.end_s == float("inf"):
                return stretch.end_s
            at_s = stretch.end_s
