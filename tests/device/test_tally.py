"""How frames were placed, and how well that was foreseen."""

import pytest

from device_doubles import WAY
from headtail_device.decision import Decision
from headtail_device.ledger import Latency, Outcome
from headtail_device.placement import Local, Placement
from headtail_device.record import FrameRecord
from headtail_device.tally import PlacementTally, mean_drop
from scripted_policy import forecast

HERE = Local(degraded=False)


def record(
    placement: Placement,
    outcome: Outcome,
    *,
    total_s: float | None = 0.3,
    expected_s: float | None = 0.2,
    drop: float = 0.0,
    late: bool = False,
) -> FrameRecord:
    """Captured at 10.0, decided on at 10.1."""
    expects = None if expected_s is None else forecast(latency_s=expected_s, drop=drop)
    return FrameRecord(
        index=0,
        origin="test",
        outcome=outcome,
        captured_at=10.0,
        decision=Decision(placement=placement, forecast=expects, decided_at=10.1),
        latency=None if total_s is None else Latency(head_s=0.0, total_s=total_s),
        late=late,
    )


def test_forecast_and_observation_from_decision_to_answer() -> None:
    tally = PlacementTally()
    tally.add(record(WAY, Outcome.EDGE, total_s=0.35, drop=0.01))
    tally.add(record(WAY, Outcome.EXIT, total_s=0.25, drop=0.01))
    tally.add(record(HERE, Outcome.LOCAL, total_s=0.3))
    way, here = tally.counts()
    assert (way.option, way.frames, way.answered) == ("middle raw", 2, 2)
    assert way.forecast_s == pytest.approx(0.2)
    assert way.observed_s == pytest.approx(0.2)
    assert way.error_s == pytest.approx(0.05)
    assert here.option == "local"
    assert here.observed_s == pytest.approx(0.2)
    assert mean_drop(tally.counts()) == pytest.approx(0.02 / 3)


def test_a_frame_that_ended_another_way_is_no_observation() -> None:
    tally = PlacementTally()
    tally.add(record(WAY, Outcome.DEGRADED, total_s=1.0))
    tally.add(record(WAY, Outcome.EXPIRED, total_s=None))
    tally.add(record(Local(degraded=True), Outcome.SPOOLED, total_s=None))
    way, here = tally.counts()
    assert (way.frames, way.answered, way.observed_s) == (2, 0, 0.0)
    assert (here.frames, here.answered) == (1, 0)


def test_what_nobody_foresaw_or_was_told_before_is_passed_over() -> None:
    tally = PlacementTally()
    tally.add(record(WAY, Outcome.EDGE, expected_s=None))
    tally.add(record(WAY, Outcome.EDGE, late=True))
    tally.add(FrameRecord(index=0, origin="test", outcome=Outcome.UNREADABLE))
    assert tally.counts() == ()
    assert mean_drop(tally.counts()) == 0
