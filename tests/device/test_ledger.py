"""Every frame ends in exactly one outcome."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headtail_device.ledger import (
    KEPT_SAMPLES,
    Latency,
    Ledger,
    LedgerError,
    Outcome,
    Percentiles,
    Samples,
)


def test_a_frame_is_open_until_it_is_settled() -> None:
    ledger = Ledger()
    ledger.open(0, 1.0)
    ledger.open(1, 2.0)
    assert repr(ledger) == "<Ledger frames=2 open=2 {}>"
    assert ledger.settle(0, Outcome.EDGE, 1.5) == 0.5
    assert repr(ledger) == "<Ledger frames=2 open=1 {'edge': 1}>"
    assert (ledger.frame_count, ledger.open_count, ledger.count(Outcome.EDGE)) == (2, 1, 1)


def test_settling_twice_is_a_bug() -> None:
    ledger = Ledger()
    ledger.open(0, 0.0)
    ledger.settle(0, Outcome.EDGE, 0.0)
    with pytest.raises(LedgerError, match="frame 0 can't be degraded: it is not open"):
        ledger.settle(0, Outcome.DEGRADED, 0.0)


def test_settling_an_unknown_frame_is_a_bug() -> None:
    with pytest.raises(LedgerError, match="frame 3"):
        Ledger().settle(3, Outcome.FAILED, 0.0)


def test_a_frame_is_opened_once_and_in_order() -> None:
    ledger = Ledger()
    ledger.open(4, 0.0)
    for index in (4, 3):
        with pytest.raises(LedgerError, match=f"frame {index} opened after frame 4"):
            ledger.open(index, 0.0)


def test_latency_is_split_and_what_remains_is_waiting() -> None:
    latency = Latency(head_s=0.01, wire_s=0.02, queue_s=0.03, tail_s=0.04, total_s=0.15)
    assert latency.wait_s == pytest.approx(0.05)
    assert Latency(head_s=2.0, total_s=1.0).wait_s == 0.0


def test_the_edges_parts_are_sampled_of_its_own_answers_only() -> None:
    ledger = Ledger()
    for index, outcome in enumerate((Outcome.EDGE, Outcome.DEGRADED, Outcome.DROPPED)):
        ledger.open(index, 0.0)
        latency = Latency(head_s=0.1, wire_s=0.2, total_s=1.0) if index < 2 else None
        ledger.settle(index, outcome, 1.0, latency=latency)
    totals = ledger.totals()
    assert totals.latency["head"] == Percentiles(p50=0.1, p95=0.1, p99=0.1, count=2)
    assert totals.latency["wire"] == Percentiles(p50=0.2, p95=0.2, p99=0.2, count=1)
    assert totals.answered == 2


def test_bytes_and_costs_are_summed() -> None:
    ledger = Ledger()
    for index in range(3):
        ledger.open(index, 0.0)
        ledger.settle(
            index, Outcome.EDGE, 0.0, bytes_up=100 + index, bytes_down=10, payload_bytes=90
        )
    ledger.open(3, 0.0)
    ledger.settle(3, Outcome.EXIT, 0.0, macs=70, gate="early")
    ledger.measure_picture(5000)
    totals = ledger.totals()
    assert (totals.bytes_up, totals.bytes_down, totals.payload_bytes) == (303, 30, 270)
    assert (totals.picture_bytes, totals.pictures_measured) == (5000, 1)
    assert (totals.macs, totals.gates, totals.answered) == (70, {"early": 1}, 4)


def test_percentiles_are_the_nearest_ranks() -> None:
    samples = Samples()
    assert samples.percentiles() == Percentiles()
    for value in range(200, 0, -1):
        samples.add(value)
    assert samples.percentiles() == Percentiles(p50=100, p95=190, p99=198, count=200)


def test_only_the_newest_samples_are_kept() -> None:
    samples = Samples()
    for value in range(KEPT_SAMPLES + 10):
        samples.add(value)
    kept = samples.percentiles()
    assert kept.count == KEPT_SAMPLES
    assert kept.p50 == 10 + KEPT_SAMPLES // 2 - 1


@given(st.lists(st.floats(0, 1e6), min_size=1))
def test_percentiles_are_samples_in_order(values: list[float]) -> None:
    samples = Samples()
    for value in values:
        samples.add(value)
    found = samples.percentiles()
    assert found.p50 <= found.p95 <= found.p99 <= max(values)
    assert {found.p50, found.p95, found.p99} <= set(values)


@given(st.lists(st.one_of(st.none(), st.sampled_from(list(Outcome)))), st.randoms())
def test_the_sums_add_up(ends: list[Outcome | None], random: Random) -> None:
    ledger = Ledger()
    for index in range(len(ends)):
        ledger.open(index, 0.0)
    settled = [(index, end) for index, end in enumerate(ends) if end is not None]
    random.shuffle(settled)
    for index, end in settled:
        ledger.settle(index, end, 1.0)
        totals = ledger.totals()
        assert totals.frames == totals.open + sum(totals.outcomes.values())
    totals = ledger.totals()
    assert totals.open == ledger.open_count == ends.count(None)
    assert Counter(totals.outcomes) == Counter(end for _, end in settled)
    assert all(totals[outcome] == ledger.count(outcome) for outcome in Outcome)
