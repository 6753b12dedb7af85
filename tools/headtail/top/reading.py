"""What two looks at a daemon tell: how it is, and how fast.

A rate is what a counter grew by over the time between the looks; of a daemon that was restarted in
between, what it counts since. Quantiles are those of the time between, or since the daemon's start
where nothing was counted between.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headtail.top.samples import Samples, quantile
from headtail.top.scrape import Scrape


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceReading:
    """A device: frames, its link, where its frames are computed. `ways` are shares of 1."""

    target: str
    frames_per_s: float | None
    outcomes: Mapping[str, float]
    latency_p50_s: float | None
    latency_p95_s: float | None
    edge_ready: bool
    in_flight: float
    rtt_s: float | None
    goodput_bytes_s: float | None
    loss: float | None
    up_bytes_s: float | None
    ways: Mapping[str, float]
    spool_frames: float
    late_answers: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeReading:
    """An edge: its queue, its batches, and the phases of a request. `devices` are requests a second
    by the name that a device is enrolled under."""

    target: str
    sessions: float
    bundles: float
    waiting: float
    running: float
    queue_s: float | None
    requests_per_s: Mapping[str, float]
    outcomes: Mapping[str, float]
    batch_mean: float | None
    phase_p95_s: Mapping[str, float]
    devices: Mapping[str, float]
    refused_seals: float
    worker_deaths: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudReading:
    """A cloud: requests, iterations, and the key-value cache's share in use."""

    target: str
    here: float
    requests_per_s: Mapping[str, float]
    outcomes: Mapping[str, float]
    rejected: float
    queue_p95_s: float | None
    latency_p95_s: float | None
    step_tasks_mean: float | None
    tokens_per_s: float | None
    kv_usage: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreachable:
    """A target that gives no reading."""

    target: str
    problem: str


Reading = DeviceReading | EdgeReading | CloudReading | Unreachable


@dataclass(frozen=True, slots=True)
class _Change:
    """From an earlier look, if there was one that counts, to a later one."""

    now: Samples
    before: Samples | None
    seconds: float
    _none: Samples = field(default_factory=Samples)

    def rate(self, name: str) -> float | None:
        if self.before is None or self.seconds <= 0:
            return None
        return _grown(self.now.sum(name), self.before.sum(name)) / self.seconds

    def rates(self, name: str, label: str) -> dict[str, float]:
        if self.before is None or self.seconds <= 0:
            return {}
        earlier = self.before.by(name, label)
        return {
            key: _grown(value, earlier.get(key, 0.0)) / self.seconds
            for key, value in self.now.by(name, label).items()
        }

    def quantile(self, share: float, name: str, **labels: str) -> float | None:
        now = self.now.buckets(name, **labels)
        earlier = (self.before or self._none).buckets(name, **labels)
        grown = {bound: _grown(count, earlier.get(bound, 0.0)) for bound, count in now.items()}
        found = quantile(share, grown)
        return quantile(share, now) if found is None else found

    def mean(self, name: str) -> float | None:
        earlier = self.before or self._none
        for before in (earlier, self._none):
            count = _grown(self.now.sum(f"{name}_count"), before.sum(f"{name}_count"))
            if count > 0:
                return _grown(self.now.sum(f"{name}_sum"), before.sum(f"{name}_sum")) / count
        return None

    def shares(self, name: str, label: str) -> dict[str, float]:
        """Of what was counted between; largest first."""
        counted = self.rates(name, label)
        if not sum(counted.values()):
            counted = self.now.by(name, label)
        total = sum(counted.values())
        ordered = sorted(counted.items(), key=lambda item: -item[1])
        return {key: value / total for key, value in ordered if value > 0} if total else {}


def read(now: Scrape, before: Scrape | None) -> Reading:
    """What the later of two looks tells; without an earlier one there are no rates."""
    target = str(now.address)
    if now.samples is None:
        return Unreachable(target=target, problem=now.problem)
    earlier = None if before is None else before.samples
    seconds = 0.0 if before is None else now.at - before.at
    change = _Change(now.samples, earlier, seconds)
    if "edge_sessions" in now.samples:
        return _edge(target, change)
    if "device_in_flight" in now.samples:
        return _device(target, change)
    if "cloud_requests_here" in now.samples:
        return _cloud(target, change)
    return Unreachable(target=target, problem="it answers, but is no device, edge or cloud")


def _device(target: str, change: _Change) -> DeviceReading:
    now = change.now
    up = change.rates("device_message_bytes_total", "direction")
    return DeviceReading(
        target=target,
        frames_per_s=change.rate("device_frames_total"),
        outcomes=now.by("device_frames_total", "outcome"),
        latency_p50_s=change.quantile(0.5, "device_latency_seconds"),
        latency_p95_s=change.quantile(0.95, "device_latency_seconds"),
        edge_ready=now.value("device_edge_ready") == 1,
        in_flight=now.sum("device_in_flight"),
        rtt_s=now.value("device_link_rtt_seconds"),
        goodput_bytes_s=now.value("device_link_goodput_bytes_per_second"),
        loss=now.value("device_link_loss_ratio"),
        up_bytes_s=up.get("up") if up else None,
        ways=change.shares("device_placed_frames_total", "way"),
        spool_frames=now.sum("device_spool_frames"),
        late_answers=now.sum("device_late_answers"),
    )


def _edge(target: str, change: _Change) -> EdgeReading:
    now = change.now
    phases = {
        phase: change.quantile(0.95, "edge_phase_seconds", phase=phase)
        for phase in now.by("edge_phase_seconds_count", "phase")
    }
    return EdgeReading(
        target=target,
        sessions=now.sum("edge_sessions"),
        bundles=now.sum("edge_bundles"),
        waiting=now.sum("edge_waiting"),
        running=now.sum("edge_running"),
        queue_s=now.value("edge_queue_seconds"),
        requests_per_s=change.rates("edge_requests_total", "outcome"),
        outcomes=now.by("edge_requests_total", "outcome"),
        batch_mean=change.mean("edge_batch_size"),
        phase_p95_s={phase: value for phase, value in phases.items() if value is not None},
        devices=change.rates("edge_device_requests_total", "device"),
        refused_seals=now.sum("edge_refused_seals_total"),
        worker_deaths=now.sum("edge_worker_deaths_total"),
    )


def _cloud(target: str, change: _Change) -> CloudReading:
    now = change.now
    return CloudReading(
        target=target,
        here=now.sum("cloud_requests_here"),
        requests_per_s=change.rates("cloud_requests_total", "outcome"),
        outcomes=now.by("cloud_requests_total", "outcome"),
        rejected=now.sum("cloud_rejected_total"),
        queue_p95_s=change.quantile(0.95, "cloud_queue_seconds"),
        latency_p95_s=change.quantile(0.95, "cloud_latency_seconds"),
        step_tasks_mean=change.mean("cloud_step_tasks"),
        tokens_per_s=change.rate("cloud_tokens_total"),
        kv_usage=now.value("cloud_kv_usage"),
    )


def _grown(now: float, before: float) -> float:
    """What a counter grew by; one that fell began anew."""
    return now - before if now >= before else now
