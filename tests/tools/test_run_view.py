"""How a run looks on a terminal and in its file."""

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from headtail.run_view import RunLine, summary_json, summary_table
from headtail_device.hedges import HedgeCount
from headtail_device.ledger import Latency, Ledger, Outcome
from headtail_device.summary import Progress, RunSummary
from headtail_device.tally import PlacedCount
from headtail_fabric.peer.ports import TrafficCount


def booked() -> Ledger:
    """Two frames by the edge, one at an exit, one filtered, one dropped."""
    ledger = Ledger()
    outcomes = (Outcome.EDGE, Outcome.EXIT, Outcome.EDGE, Outcome.FILTERED, Outcome.DROPPED)
    gates = {Outcome.EXIT: "early[1]", Outcome.FILTERED: "presence"}
    costs = {Outcome.EDGE: 4000, Outcome.EXIT: 1500, Outcome.FILTERED: 500}
    for index, outcome in enumerate(outcomes):
        ledger.open(index, 0.0)
        answered = outcome is not Outcome.DROPPED
        ledger.settle(
            index,
            outcome,
            0.0,
            latency=Latency(head_s=0.01, total_s=0.02) if answered else None,
            payload_bytes=100 if outcome is Outcome.EDGE else 0,
            macs=costs.get(outcome, 0),
            gate=gates.get(outcome, ""),
        )
    return ledger


def summary(ledger: Ledger) -> RunSummary:
    return RunSummary(
        source="clip.mp4",
        bundle="gated-1.0",
        edge="edge",
        cut="code",
        codec="rans",
        totals=ledger.totals(),
        traffic=TrafficCount(),
        pushed_bytes=0,
        outputs=(),
        faults=(),
        wall_s=2.0,
    )


def printed(run: RunSummary) -> str:
    out = StringIO()
    Console(file=out, width=120).print(summary_table(run))
    return " ".join(out.getvalue().replace("│", " ").split())


def test_the_table_tells_where_frames_ended_and_what_they_cost() -> None:
    text = printed(summary(booked()))
    assert "frames 5 answered by the edge 2 answered at an exit 1 filtered: nothing of" in text
    assert "dropped by policy 1" in text
    assert "at gate early[1] 1 at gate presence 1" in text
    assert "frames a second 2.0" in text
    assert "multiply-adds a frame, here 2,000" in text
    assert "payload alone 100" in text


def test_a_run_without_gates_says_nothing_of_them() -> None:
    assert "at gate" not in printed(summary(Ledger()))


def test_with_a_controller_it_tells_where_frames_went_and_what_was_foreseen() -> None:
    placed = [
        PlacedCount(
            option=option,
            frames=frames,
            answered=frames,
            forecast_s=0.1,
            observed_s=0.12,
            error_s=0.03,
            drop=drop,
        )
        for option, frames, drop in (("L7 q4+zstd", 3, 0.004), ("local", 1, 0.0))
    ]
    run = replace(
        summary(booked()),
        goal="lowest-latency",
        placements=tuple(placed),
        hedges=HedgeCount(started=2, won=1),
    )
    text = printed(run)
    assert "gated-1.0, placed frame by frame, lowest-latency" in text
    assert "L7 q4+zstd, 3 100.0 / 120.0 / 30.0" in text
    assert "computed here as well 2 and sooner than the edge 1" in text
    assert "accuracy that the choices cost 0.0030" in text
    document = summary_json(run)
    assert document["placed_drop"] == pytest.approx(0.003)
    assert document["hedges"] == {"started": 2, "won": 1}
    assert "placed, frames" not in printed(summary(booked()))
    assert summary_json(summary(booked()))["placed_drop"] is None


def test_the_file_has_the_same_numbers() -> None:
    document = summary_json(summary(booked()))
    assert document["outcomes"] == {
        "edge": 2,
        "exit": 1,
        "filtered": 1,
        "local": 0,
        "degraded": 0,
        "dropped": 1,
        "spooled": 0,
        "expired": 0,
        "unreadable": 0,
        "failed": 0,
    }
    assert document["gates"] == {"early[1]": 1, "presence": 1}
    assert document["macs_per_frame"] == 2000


def test_a_line_that_is_no_terminals_tells_the_outcomes_so_far() -> None:
    out = StringIO()
    ledger = booked()
    with RunLine(Console(file=out, width=120)) as line:
        line.show(
            Progress(
                frames=5,
                frame_count=8,
                outcomes={outcome: ledger.count(outcome) for outcome in Outcome},
                in_flight=1,
                edge_ready=True,
                busy_s=2.0,
            )
        )
    assert "5 of 8 frames: 2.5/s, 2 edge, 1 exit, 1 filtered, 1 dropped, 1 in flight" in " ".join(
        out.getvalue().split()
    )
