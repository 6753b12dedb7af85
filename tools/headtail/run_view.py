"""How a run looks on a terminal: a line while it goes on, a table at its end, a file of it."""

import time
from collections.abc import Mapping
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from headtail_device.ledger import Outcome
from headtail_device.summary import Progress as RunProgress
from headtail_device.summary import RunSummary

_WORDS: Final[Mapping[Outcome, str]] = {
    Outcome.EDGE: "answered by the edge",
    Outcome.EXIT: "answered at an exit",
    Outcome.FILTERED: "filtered: nothing of interest",
    Outcome.LOCAL: "answered on the device",
    Outcome.DEGRADED: "answered on the device, degraded",
    Outcome.DROPPED: "dropped by policy",
    Outcome.SPOOLED: "waiting in the spool",
    Outcome.EXPIRED: "expired",
    Outcome.UNREADABLE: "unreadable",
    Outcome.FAILED: "failed",
}
_PARTS: Final[Mapping[str, str]] = {
    "total": "capture to answer",
    "head": "head (prepare, compute, encode)",
    "wire": "wire, both ways",
    "queue": "queue at the edge",
    "tail": "tail (decode, compute)",
    "wait": "waiting on the device",
}
_PLAIN_EVERY_S: Final = 5.0


class RunLine:
    """The live line; where the output is no terminal, a plain line every few seconds."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[now]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("frames", total=None, now="")
        self._plain_at = 0.0

    def __enter__(self) -> "RunLine":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def show(self, progress: RunProgress) -> None:
        """Tell how far the run is."""
        done = sum(progress.outcomes.values())
        parts = [f"{done / progress.busy_s:.1f}/s"] if progress.busy_s else []
        parts += [f"{n} {outcome.value}" for outcome, n in progress.outcomes.items() if n]
        parts += [f"{progress.in_flight} in flight"]
        parts += [] if progress.edge_ready else ["edge away"]
        now = ", ".join(parts)
        self._bar.update(self._task, completed=done, total=progress.frame_count, now=now)
        if not self._console.is_terminal and time.monotonic() >= self._plain_at:
            self._plain_at = time.monotonic() + _PLAIN_EVERY_S
            self._console.print(f"{done} of {progress.frame_count or '?'} frames: {now}")


def summary_table(summary: RunSummary) -> Table:
    """The run in one table."""
    table = Table(title=_title(summary), title_justify="left", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_row("frames", f"{summary.frames:,}", style="bold")
    for outcome, count in summary.totals.outcomes.items():
        if count:
            table.add_row(f"  {_WORDS[outcome]}", f"{count:,}")
    for gate, count in summary.totals.gates.items():
        table.add_row(f"    at gate {escape(gate)}", f"{count:,}")
    table.add_row("frames a second", f"{summary.frames_per_s:.1f}")
    table.add_section()
    table.add_row("latency, ms", "p50 / p95 / p99", style="bold")
    for part, label in _PARTS.items():
        kept = summary.latency_ms.get(part)
        if kept is not None and kept.count:
            table.add_row(f"  {label}", f"{kept.p50:.1f} / {kept.p95:.1f} / {kept.p99:.1f}")
    table.add_section()
    _add_placements(table, summary)
    table.add_row("multiply-adds a frame, here", f"{summary.macs_per_frame:,.0f}", style="bold")
    table.add_section()
    table.add_row("bytes a frame", "", style="bold")
    for label, value in _bytes(summary):
        if value is not None:
            table.add_row(f"  {label}", f"{value:,.0f}")
    return table


def summary_json(summary: RunSummary) -> dict[str, object]:
    """The run as plain values."""
    return {
        "source": summary.source,
        "bundle": summary.bundle,
        "edge": summary.edge,
        "goal": summary.goal,
        "cut": summary.cut,
        "codec": summary.codec,
        "frames": summary.frames,
        "outcomes": {outcome.value: n for outcome, n in summary.totals.outcomes.items()},
        "gates": dict(summary.totals.gates),
        "macs_per_frame": summary.macs_per_frame,
        "wall_s": summary.wall_s,
        "frames_per_s": summary.frames_per_s,
        "latency_ms": {
            part: {"p50": kept.p50, "p95": kept.p95, "p99": kept.p99, "count": kept.count}
            for part, kept in summary.latency_ms.items()
        },
        "bytes_per_frame": dict(_bytes(summary)),
        "placements": [
            {
                "way": placed.option,
                "frames": placed.frames,
                "answered": placed.answered,
                "forecast_ms": placed.forecast_s * 1000,
                "observed_ms": placed.observed_s * 1000,
                "error_ms": placed.error_s * 1000,
                "drop": placed.drop,
            }
            for placed in summary.placements
        ],
        "placed_drop": summary.placed_drop,
        "hedges": {"started": summary.hedges.started, "won": summary.hedges.won},
        "retries": summary.traffic.retries,
        "outputs": list(summary.outputs),
        "faults": [fault.message for fault in summary.faults],
    }


def _title(summary: RunSummary) -> str:
    way = f"cut {summary.cut}, codec {summary.codec}" if summary.cut else "all on the device"
    if summary.goal:
        way = f"placed frame by frame, {summary.goal}"
    return f"{summary.source}: {summary.bundle}, {way}"


def _add_placements(table: Table, summary: RunSummary) -> None:
    if not summary.placements:
        return
    table.add_row("placed, frames", "ms forecast / observed / error", style="bold")
    for placed in summary.placements:
        label = f"  {escape(placed.option)}, {placed.frames:,}"
        means = (placed.forecast_s, placed.observed_s, placed.error_s)
        told = " / ".join(f"{1000 * mean:.1f}" for mean in means)
        table.add_row(label, told if placed.answered else "none answered so")
    if summary.hedges.started:
        table.add_row("  computed here as well", f"{summary.hedges.started:,}")
        table.add_row("  and sooner than the edge", f"{summary.hedges.won:,}")
    table.add_row("  accuracy that the choices cost", f"{summary.placed_drop or 0.0:.4f}")
    table.add_section()


def _bytes(summary: RunSummary) -> list[tuple[str, float | None]]:
    kernel = summary.traffic.socket_bytes_up is not None
    counted = "at the socket" if kernel else "as framed (no socket count on this platform)"
    return [
        (f"up, {counted}", summary.bytes_up_per_frame),
        (f"down, {counted}", summary.bytes_down_per_frame),
        ("payload alone", summary.payload_bytes_per_frame),
        ("the same frames as JPEG, quality 75", summary.jpeg_bytes_per_frame),
    ]
