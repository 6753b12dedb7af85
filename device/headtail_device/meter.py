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
        self._ready = metrics.gauge("device_edge_ready", "1 while the edge can be used.")
        self._in_flight = metrics.gauge("device_in_flight", "Frames at the edge.")

    def finished(self, record: FrameRecord) -> None:
        """A frame has its outcome."""
        outcome = record.outcome.value
        self._frames.add(outcome=outcome)
        if record.bytes_up:
            self._bytes.add(record.bytes_up, direction="up")
            self._bytes.add(record.bytes_down, direction="down")
        if record.latency is not None:
            self._latency.observe(record.latency.total_s, outcome=outcome)

    def look(self, runner: Runner) -> None:
        """How things stand now."""
        self._ready.set(float(runner.edge.ready))
        self._in_flight.set(runner.in_flight)
