"""What an edge counts of itself."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from headtail_edge.admission import Refusal
from headtail_fabric.metrics import Metrics
from headtail_fabric.wire import Timings

_BATCH_BUCKETS: Final = (1, 2, 4, 8, 16, 32, 64)


class Outcome(StrEnum):
    """How a request ended, each in exactly one way."""

    ANSWERED = "answered"
    BUSY = "busy"
    FAILED = "failed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


class EdgeMetrics:
    """The edge's instruments. Safe to use from any thread."""

    def __init__(self, metrics: Metrics) -> None:
        self._requests = metrics.counter(
            "edge_requests", "Requests by how they ended at this edge", ["outcome"]
        )
        self._callers = metrics.counter(
            "edge_device_requests", "Requests by the device's enrolled name", ["device"]
        )
        self._phases = metrics.histogram(
            "edge_phase_seconds", "Time that answered requests spent in each phase", ["phase"]
        )
        self._batches = metrics.histogram(
            "edge_batch_size", "Requests computed together", buckets=_BATCH_BUCKETS
        )
        self._mixed = metrics.counter(
            "edge_mixed_requests", "Requests computed together with such at another cut"
        )
        self._waiting = metrics.gauge("edge_waiting", "Requests in the queue")
        self._running = metrics.gauge("edge_running", "Requests being computed")
        self._sessions = metrics.gauge("edge_sessions", "Open sessions")
        self._bundles = metrics.gauge("edge_bundles", "Bundles served")
        self._seals = metrics.counter(
            "edge_refused_seals", "Payloads refused for their seal", ["reason"]
        )
        self._pushes = metrics.counter("edge_pushes", "Bundles pushed by devices", ["outcome"])
        self._refusals = metrics.counter(
            "edge_refusals",
            "Requests refused for now, by why (beyond the device's rate, queue or quota full, "
            "would be late) and what was offered instead",
            ["reason", "instead"],
        )
        self._forwards = metrics.counter(
            "edge_forwards", "Requests forwarded to the cloud, by what came of it", ["outcome"]
        )
        self._deaths = metrics.counter("edge_worker_deaths", "Worker processes that died or hung")
        self._queue = metrics.gauge(
            "edge_queue_seconds", "When a request that comes now should have its turn"
        )

    def requested(self, user: str) -> None:
        """A request came from a device enrolled under that name ("" without keys)."""
        self._callers.add(device=user)

    def ended(self, outcome: Outcome, count: int = 1) -> None:
        """`count` requests ended."""
        if count:
            self._requests.add(count, outcome=outcome)

    def refused(self, refusal: Refusal) -> None:
        """A request was told to come again, or to go another way."""
        self.ended(Outcome.BUSY)
        way = refusal.instead
        instead = "nothing" if way is None else "cheaper" if way.cut else "local"
        self._refusals.add(reason=refusal.reason, instead=instead)

    def answered(self, timings: Timings) -> None:
        """A request was answered."""
        self.answered_all([timings])

    def answered_all(self, timings: Sequence[Timings]) -> None:
        """So many requests were answered."""
        self.ended(Outcome.ANSWERED, len(timings))
        observe = self._phases.observe
        for one in timings:
            observe(one.queue_us / 1e6, phase="queue")
            observe(one.decode_us / 1e6, phase="decode")
            observe(one.compute_us / 1e6, phase="compute")
            observe(one.post_us / 1e6, phase="post")

    def batch(self, size: int, *, mixed: int = 0) -> None:
        """A batch of `size` requests was computed, of which so many shared the rest of their tails
        though they came in at several cuts."""
        self._batches.observe(size)
        if mixed:
            self._mixed.add(mixed)

    def load(self, *, waiting: int, running: int, queue_s: float) -> None:
        """The queue as it is now."""
        self._waiting.set(waiting)
        self._running.set(running)
        self._queue.set(queue_s)

    def worker_died(self) -> None:
        """A worker process died or hung."""
        self._deaths.add()

    def forwarded(self, outcome: str) -> None:
        """A request that was forwarded to the cloud ended, in that way."""
        self._forwards.add(outcome=outcome)

    def sessions(self, count: int) -> None:
        """Sessions open now."""
        self._sessions.set(count)

    def bundles(self, count: int) -> None:
        """Bundles served now."""
        self._bundles.set(count)

    def seal_refused(self, reason: str) -> None:
        """A payload was refused for its seal; `reason` is the kind of error."""
        self._seals.add(reason=reason)

    def pushed(self, *, accepted: bool) -> None:
        """A bundle came from a device, and was taken or refused."""
        self._pushes.add(outcome="accepted" if accepted else "refused")
