"""What a device tells Prometheus of itself."""

from collections import defaultdict
from collections.abc import Sequence

from device_doubles import WAY, Bench
from headtail_device.decision import Decision, Reason
from headtail_device.ledger import Latency, Outcome
from headtail_device.meter import DeviceMeter
from headtail_device.record import FrameRecord
from scripted_policy import ScriptedPolicy, forecast


class Noted:
    """An instrument of any kind; sums what it is given, by labels."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, ...], float] = defaultdict(float)

    def add(self, amount: float = 1, **labels: str) -> None:
        self.values[tuple(labels.values())] += amount

    def set(self, value: float, **labels: str) -> None:
        self.values[tuple(labels.values())] = value

    def observe(self, value: float, **labels: str) -> None:
        self.values[tuple(labels.values())] += value


class NotedMetrics:
    def __init__(self) -> None:
        self.made: dict[str, Noted] = defaultdict(Noted)

    def counter(self, name: str, description: str, labels: Sequence[str] = ()) -> Noted:
        return self.made[name]

    def gauge(self, name: str, description: str, labels: Sequence[str] = ()) -> Noted:
        return self.made[name]

    def histogram(
        self,
        name: str,
        description: str,
        labels: Sequence[str] = (),
        *,
        buckets: Sequence[float] = (),
    ) -> Noted:
        return self.made[name]

    def close(self) -> None:
        pass


def test_frames_are_counted_by_outcome_and_by_the_way_that_was_chosen() -> None:
    metrics = NotedMetrics()
    meter = DeviceMeter(metrics)
    decision = Decision(placement=WAY, reason=Reason.TRIED, forecast=forecast(), decided_at=0.0)
    for late in (False, True):
        meter.finished(
            FrameRecord(
                index=0,
                origin="test",
                outcome=Outcome.EDGE,
                decision=decision,
                latency=Latency(head_s=0.1, total_s=0.5),
                bytes_up=10,
                bytes_down=5,
                late=late,
            )
        )
    assert metrics.made["device_frames"].values == {("edge",): 1}
    assert metrics.made["device_spooled_frames"].values == {("edge",): 1}
    assert metrics.made["device_placed_frames"].values == {("middle raw", "tried"): 1}
    assert metrics.made["device_latency_seconds"].values == {("edge",): 0.5}
    assert metrics.made["device_message_bytes"].values == {("up",): 20, ("down",): 10}


def test_how_things_stand_is_looked_up() -> None:
    metrics = NotedMetrics()
    bench = Bench(policy=ScriptedPolicy(expects=forecast(upper_s=0.2)), hedge=True)
    bench.pump()
    bench.feed(0)
    DeviceMeter(metrics).look(bench.runner)
    assert metrics.made["device_edge_ready"].values == {(): 1}
    assert metrics.made["device_in_flight"].values == {(): 1}
    bench.pass_time(0.2)
    bench.runner.on_time()
    bench.work_off()
    DeviceMeter(metrics).look(bench.runner)
    assert metrics.made["device_hedges"].values == {(): 1}
    assert metrics.made["device_hedges_won"].values == {(): 1}
