"""What the cloud tier measures of itself.

Names are those of `docs/cloud.md`; a label's values come from the models served and from closed
sets, never from a caller.
"""

from typing import Final

from headtail_cloud.core.actions import (
    Accept,
    EmitToken,
    Finish,
    Outcome,
    Reject,
    Step,
)
from headtail_cloud.dispatch.events import FleetAction, Moved
from headtail_fabric.metrics import Metrics

_BATCH_BUCKETS: Final = (1, 2, 4, 8, 16, 32, 64)


class CloudMetrics:
    """The instruments; a runtime's watcher."""

    def __init__(self, metrics: Metrics) -> None:
        self._ended = metrics.counter(
            "cloud_requests", "Accepted requests by how they ended", ["outcome"]
        )
        self._rejected = metrics.counter(
            "cloud_rejected", "Requests that were not accepted", ["reason"]
        )
        self._degraded = metrics.counter(
            "cloud_degraded", "Requests that were accepted in a cheaper variant"
        )
        self._exits = metrics.counter(
            "cloud_early_exit", "Requests that ended early, by the segments they ran", ["at"]
        )
        self._queue = metrics.histogram(
            "cloud_queue_seconds", "From a request's arrival to its first iteration"
        )
        self._latency = metrics.histogram(
            "cloud_latency_seconds", "From a request's arrival to its end, of those with an answer"
        )
        self._ttft = metrics.histogram(
            "cloud_ttft_seconds", "From a text's arrival to its first token"
        )
        self._tbt = metrics.histogram("cloud_tbt_seconds", "From one token of a text to the next")
        self._goodput = metrics.counter(
            "cloud_goodput", "Requests answered with every promised time kept", ["kind"]
        )
        self._tokens = metrics.counter("cloud_tokens", "Tokens said")
        self._steps = metrics.histogram("cloud_step_seconds", "Of an iteration")
        self._batches = metrics.histogram(
            "cloud_step_tasks", "Tasks of an iteration", buckets=_BATCH_BUCKETS
        )
        self._here = metrics.gauge("cloud_requests_here", "Requests accepted and not ended")
        self._kv_usage = metrics.gauge(
            "cloud_kv_usage", "Share of the key-value cache that is held"
        )
        self._cold_start = metrics.histogram(
            "cloud_cold_start_seconds", "What starting an instance took", ["tier"]
        )
        self._instances = metrics.gauge("cloud_instances", "Instances, those that start included")
        self._moves = metrics.counter("cloud_moves", "Texts that went on elsewhere", ["why"])
        self._pauses = metrics.histogram("cloud_move_pause_seconds", "How long they stood still")
        self._http = metrics.counter("cloud_http_failures", "HTTP answers that were none", ["code"])

    def acted(self, action: FleetAction) -> None:
        match action:
            case Reject(reason=reason):
                self._rejected.add(reason=reason)
            case Accept(variant=variant):
                if variant:
                    self._degraded.add()
            case EmitToken(after_s=after_s):
                self._tokens.add()
                if after_s is not None:
                    self._tbt.observe(after_s)
            case Finish():
                self._finished(action)
            case Moved(why=why, pause_s=pause_s):
                self._moves.add(why=why)
                self._pauses.observe(pause_s)

    def step_took(self, step: Step, seconds: float) -> None:
        self._steps.observe(seconds)
        self._batches.observe(len(step.tasks))

    def load(self, here: int, kv_usage: float | None) -> None:
        self._here.set(here)
        if kv_usage is not None:
            self._kv_usage.set(kv_usage)

    def started(self, tier: str, seconds: float) -> None:
        """An instance is there, from that tier, after that long."""
        self._cold_start.observe(seconds, tier=tier)

    def instances(self, running: int) -> None:
        self._instances.set(running)

    def failed(self, code: str) -> None:
        """An HTTP request was answered with that failure."""
        self._http.add(code=code)

    def _finished(self, finish: Finish) -> None:
        times = finish.timeline
        self._ended.add(outcome=finish.outcome)
        if finish.on_time:
            self._goodput.add(kind=finish.kind)
        if times.started_at is not None:
            self._queue.observe(times.started_at - times.arrived_at)
        if times.first_token_at is not None:
            self._ttft.observe(times.first_token_at - times.arrived_at)
        if finish.outcome in (Outcome.DONE, Outcome.EXITED):
            self._latency.observe(times.ended_at - times.arrived_at)
        if finish.outcome is Outcome.EXITED:
            self._exits.add(at=str(min(finish.ran, 1000)))
