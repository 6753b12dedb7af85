"""What a device tells Prometheus of itself."""

from headtail_device.record import FrameRecord
from headtail_device.runner import Runner
from headtail_fabric.link import LinkEstimate
from headtail_fabric.metrics import Metrics


class DeviceMeter:
    """Counts finished frames and watches the runner."""

    def __init__(self, metrics: Metrics) -> None:
        self._frames = metrics.counter("device_frames", "Frames by outcome.", ["outcome"])
        self._bytes = metrics.counter(
            "device_message_bytes", "Bytes of answered requests, framing included.", ["direction"]
        )
        self._latency = metrics.histogram(
            "device_latency_seconds", "From capture to answer.", ["outcome"]
        )
        self._late = metrics.counter(
            "device_spooled_frames", "Final outcomes of spooled frames.", ["outcome"]
        )
        self._placed = metrics.counter(
            "device_placed_frames", "Frames by the way that was chosen.", ["way", "reason"]
        )
        self._hedges = metrics.gauge("device_hedges", "Frames computed here as well, so far.")
        self._hedges_won = metrics.gauge(
            "device_hedges_won", "Those of them that were sooner than the edge."
        )
        self._ready = metrics.gauge("device_edge_ready", "1 while the edge can be used.")
        self._in_flight = metrics.gauge("device_in_flight", "Frames at the edge.")
        self._late_answers = metrics.gauge(
            "device_late_answers", "Answers of the edge that came too late, so far."
        )
        self._rtt = metrics.gauge("device_link_rtt_seconds", "Round trip to the edge, estimated.")
        self._goodput = metrics.gauge(
            "device_link_goodput_bytes_per_second", "What the link to the edge carries, estimated."
        )
        self._loss = metrics.gauge(
            "device_link_loss_ratio", "Requests that had to be sent again, of all."
        )
        self._spool_frames = metrics.gauge("device_spool_frames", "Frames that wait in the spool.")
        self._spool_bytes = metrics.gauge("device_spool_bytes", "What the spool takes on disk.")
        self._spool_refused = metrics.gauge(
            "device_spool_refused", "Frames that the spool could not take, so far."
        )

    def finished(self, record: FrameRecord) -> None:
        """A frame has its outcome."""
        outcome = record.outcome.value
        (self._late if record.late else self._frames).add(outcome=outcome)
        decision = record.decision
        if decision is not None and not record.late:
            self._placed.add(way=decision.option, reason=decision.reason.value)
        if record.bytes_up:
            self._bytes.add(record.bytes_up, direction="up")
            self._bytes.add(record.bytes_down, direction="down")
        if record.latency is not None and not record.late:
            self._latency.observe(record.latency.total_s, outcome=outcome)

    def link(self, estimate: LinkEstimate) -> None:
        """What is known of the link now; what was never measured is not told."""
        for gauge, value in (
            (self._rtt, estimate.rtt_s),
            (self._goodput, estimate.goodput_bytes_s),
            (self._loss, estimate.loss),
        ):
            gauge.set(float("nan") if value is None else value)

    def look(self, runner: Runner) -> None:
        """How things stand now."""
        self._ready.set(float(runner.edge.ready))
        self._in_flight.set(runner.in_flight)
        self._late_answers.set(runner.late_answers)
        self._hedges.set(runner.hedges.started)
        self._hedges_won.set(runner.hedges.won)
        if runner.spooler is not None:
            count = runner.spooler.count
            self._spool_frames.set(count.waiting)
            self._spool_bytes.set(count.size_bytes)
            self._spool_refused.set(count.refused)
