"""A device, a link and an edge that do exactly what they are told, for tests of the controller."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from headtail_device.controller import Controller, Option
from headtail_device.decision import Decision, Experience
from headtail_device.placement import Local, Observation, Offload, Split
from headtail_fabric.link import LinkEstimate, LinkEstimator
from headtail_fabric.wire import Hints

LOCAL = Option(placement=Local(degraded=False), device_s=0.4, device_macs=1_000_000_000)
SPLIT = Option(
    placement=Split(cut="mid", codec="q4"),
    drop=0.002,
    device_s=0.1,
    server_s=0.05,
    payload_bytes=20_000,
    device_macs=250_000_000,
)
PICTURE = Option(
    placement=Offload(codec="jpeg", quality=90),
    drop=0.004,
    device_s=0.02,
    server_s=0.08,
    payload_bytes=80_000,
)
OPTIONS = (LOCAL, SPLIT, PICTURE)


def seen(
    *,
    rate_bytes_s: float | None = 1e6,
    rtt_s: float | None = 0.03,
    remaining_s: float = 10.0,
    now: float = 0.0,
    edge_ready: bool = True,
    in_flight: int = 0,
    oldest_s: float = 0.0,
    retry_in_s: float = 0.0,
    queue_ms: int = 0,
    loss: float | None = None,
) -> Observation:
    """What a runner would show."""
    return Observation(
        now=now,
        edge_ready=edge_ready,
        free_window=4,
        in_flight=in_flight,
        oldest_s=oldest_s,
        retry_in_s=retry_in_s,
        remaining_s=remaining_s,
        hints=Hints(queue_ms=queue_ms),
        link=LinkEstimate(rtt_s=rtt_s, goodput_bytes_s=rate_bytes_s, loss=loss),
    )


def option_of(controller: Controller, decision: Decision) -> Option:
    """What was decided for."""
    return next(one for one in controller.options if one.name == decision.option)


@dataclass(kw_only=True)
class World:
    """The truth; what the device knows of the link is the rate of its last request. `slower`: how
    many times as long as measured this device takes."""

    rate_bytes_s: Callable[[float], float]
    rtt_s: float = 0.03
    slower: float = 1.0
    edge_slower: float = 1.0
    period_s: float = 0.1
    deadline_s: float = 10.0
    now: float = 0.0
    latencies_s: list[float] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    _known: float | None = None

    def run(self, controller: Controller, until_s: float) -> list[Decision]:
        """Frame after frame; the decisions of this run."""
        first = len(self.decisions)
        while self.now < until_s:
            self._frame(controller)
        return self.decisions[first:]

    def _frame(self, controller: Controller) -> None:
        view = seen(
            now=self.now,
            rate_bytes_s=self._known,
            rtt_s=self.rtt_s,
            remaining_s=self.deadline_s,
        )
        decision = controller.place(view)
        was = self._outcome(option_of(controller, decision))
        controller.finished(decision, was, self.now + was.total_s)
        self.latencies_s.append(was.total_s)
        self.decisions.append(decision)
        self.now += max(was.total_s, self.period_s)

    def _outcome(self, option: Option) -> Experience:
        device_s = (option.gates_s + option.device_s) * self.slower
        if not option.needs_edge:
            return Experience(device_s=device_s, total_s=device_s)
        rate = self.rate_bytes_s(self.now)
        wire_s = self.rtt_s + option.payload_bytes / rate
        server_s = option.server_s * self.edge_slower
        self._known = rate
        return Experience(
            device_s=device_s,
            total_s=device_s + wire_s + server_s,
            payload_bytes=round(option.payload_bytes),
            wire_s=wire_s,
            server_s=server_s,
        )


@dataclass(kw_only=True)
class OutageWorld(World):
    """What is on the link while it is out stays there until it is back; what the device knows of
    the link is what a client's estimator does."""

    outage_s: tuple[float, float]
    link: LinkEstimator = field(default_factory=LinkEstimator)

    def _outcome(self, option: Option) -> Experience:
        was = super()._outcome(option)
        if was.wire_s is None or was.payload_bytes is None:
            return was
        sent_at = self.now + was.device_s
        gone_at, back_at = self.outage_s
        stalled_s = back_at - sent_at if sent_at < back_at and sent_at + was.wire_s > gone_at else 0
        received_at = self.now + was.total_s + stalled_s
        self.link.request_answered(
            size_bytes=was.payload_bytes,
            sent_at=sent_at,
            received_at=received_at,
            resident_s=was.server_s or 0.0,
        )
        self._known = self.link.estimate(received_at).goodput_bytes_s
        return replace(was, total_s=was.total_s + stalled_s, wire_s=was.wire_s + stalled_s)
