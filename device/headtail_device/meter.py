"""What a device tells Prometheus of itself."""

from headtail_device.record import FrameRecord
from headtail_device.runner import Runner
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
        self._ready = metrics.gauge("device_edge_ready", "1 while the edge can be used.")
        self._in_flight = metrics.gauge("device_in_flight", "Frames at the edge.")
        self._late_answers = metrics.gauge(
            "device_late_answers", "Answers of the edge that came too late, so far."
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
        if record.bytes_up:
            self._bytes.add(record.bytes_up, direction="up")
            self._bytes.add(record.bytes_down, direction="down")
        if record.latency is not None and not record.late:
            self._latency.observe(record.latency.total_s, outcome=outcome)

    def look(self, runner: Runner) -> None:
        """How things stand now."""
        self._ready.set(float(runner.edge.ready))
        self._in_flight.set(runner.in_flight)
        self._late_answers.set(runner.late_answers)
        if runner.spooler is not None:
            count = runner.spooler.count
            self._spool_frames.set(count.waiting)
            self._spool_bytes.set(count.size_bytes)
            self._spool_refused.set(count.refused)
