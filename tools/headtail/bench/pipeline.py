"""Do capture, head, link, edge and outputs overlap? Frames a second of a real run, against what its
slowest stage alone would allow.

A device in this process reads the sample clip as fast as it is handled and writes JSON lines and
the annotated video; its edge is a process of its own with one worker. Every stage is timed in the
run itself, in wall-clock time, so that what else the machine does slows both sides of the ratio.
Three runs, each with another slowest stage: the edge, an emulated link, the device.
"""

import argparse
import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any, Final

from headtail.bench.report import Report
from headtail.local_edge import LocalEdge
from headtail.provision import ensure_bundle, ensure_clip
from headtail_device.config import DeviceConfig
from headtail_device.daemon import run_device
from headtail_device.summary import Progress, RunSummary
from headtail_fabric import config
from headtail_fabric.emulator import LinkProxy, parse_link

_TARGET: Final = 0.9
_DEADLINE_S: Final = 20.0
_DRAIN_S: Final = 20.0
_THREADS: Final = {"MainThread": "head", "capture": "capture", "listen": "listen"} | {
    "output": "outputs"
}
"""Of the device, by their names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One run: settings of the device, and what its link is like."""

    name: str
    settings: Mapping[str, object]
    link: str | None = None

    @property
    def link_bits_s(self) -> float | None:
        """What the emulated link carries; None without one."""
        if self.link is None:
            return None
        return parse_link(self.link).at(0.0).conditions.up_bits_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """`stages_s`: how long each stage is busy with one frame, on average."""

    frames: int
    frames_per_s: float
    stages_s: Mapping[str, float]
    shares: Mapping[str, float]
    """Of one core, by thread of the device; empty where the system does not tell."""

    @property
    def slowest(self) -> str:
        return max(self.stages_s, key=lambda name: self.stages_s[name])

    @property
    def ratio(self) -> float:
        """1: nothing but the slowest stage keeps the run from being faster."""
        return self.frames_per_s * self.stages_s[self.slowest]


def cases(link: str) -> tuple[Case, ...]:
    """Of the default bundle."""
    return (
        Case(name="edge", settings={"way.cut": "bottleneck", "way.codec": "rans-quick"}),
        Case(
            name="link",
            settings={"way.cut": "input", "way.codec": "jpeg", "way.quality": 80},
            link=link,
        ),
        Case(name="device", settings={"mode": "local"}),
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--bundle", default="yolov3-tiny-coco", help="with a cut `bottleneck`")
    parser.add_argument("--source", help="a clip (default: the sample clip)")
    parser.add_argument(
        "--link",
        default="rate=1500kbit rtt=20ms",
        help="of the run in which the link is the slowest (default: %(default)s)",
    )
    parser.add_argument("--turns", type=int, default=3, help="runs a case; the best counts")


def run(options: argparse.Namespace) -> Report:
    bundle = ensure_bundle(options.bundle)
    source = options.source or str(ensure_clip())
    report = Report(
        "pipeline",
        {
            "bundle": options.bundle,
            "source": Path(source).name,
            "edge_workers": 1,
            "batch": 1,
            "threads_a_stage": 1,
            "outputs": "json, annotated video",
            "link": options.link,
            "turns": options.turns,
        },
    )
    rows: list[list[str | float | None]] = []
    ratios = []
    with TemporaryDirectory() as folder:
        for case in cases(options.link):
            paces = [_measured(case, bundle, source, Path(folder)) for _ in range(options.turns)]
            best = max(paces, key=lambda pace: pace.ratio)
            ratios.append(report.figure(f"pipeline_ratio_{case.name}", best.ratio))
            report.figure(f"frames_per_s_{case.name}", best.frames_per_s)
            rows.append(_row(case, best))
    columns = ["slowest by design", "frames/s", "slowest", "ms", "ratio"]
    columns += ["head ms", "link ms", "edge ms", *(f"{name} core" for name in _THREADS.values())]
    report.table("Throughput against the slowest stage", columns, rows)
    report.note(
        "Core: the share of one core that a thread of the device took. What the edge's process "
        "takes comes on top; where all together exceed the cores, stages slow each other."
    )
    report.target("pipeline_ratio", min(ratios), ">=", _TARGET)
    return report


def _row(case: Case, pace: Pace) -> list[str | float | None]:
    stages = [pace.stages_s.get(name) for name in ("head", "link", "edge")]
    return [
        case.name,
        pace.frames_per_s,
        pace.slowest,
        1e3 * pace.stages_s[pace.slowest],
        pace.ratio,
        *(None if one is None else 1e3 * one for one in stages),
        *(pace.shares.get(name) for name in _THREADS.values()),
    ]


def _measured(case: Case, bundle: Path, source: str, folder: Path) -> Pace:
    lines = folder / "frames.jsonl"
    flags: dict[str, object] = {
        "bundle": str(bundle),
        "source": source,
        "output.json": str(lines),
        "output.video": folder / "annotated.mp4",
        "deadline_s": _DEADLINE_S,
        "drain_s": _DRAIN_S,
        "gates.filter": False,
        **case.settings,
    }
    watch = ThreadWatch()
    with ExitStack() as cleanup:
        if case.settings.get("mode") != "local":
            options = ("--workers", "1", "--threads", "1", "--max-batch", "1")
            edge = cleanup.enter_context(
                LocalEdge(bundle, log=folder / "edge.log", options=options)
            )
            endpoint = edge.endpoint
            if case.link is not None:
                trace = parse_link(case.link)
                endpoint = cleanup.enter_context(LinkProxy(trace, target=endpoint)).endpoint
            flags["edge.endpoint"] = endpoint
        summary = run_device(
            config.load(DeviceConfig, None, flags), stop=threading.Event(), progress=watch.look
        )
    return pace_of(_lines(lines), summary, link_bits_s=case.link_bits_s, shares=watch.shares())


def pace_of(
    lines: Iterable[Mapping[str, Any]],
    summary: RunSummary,
    *,
    link_bits_s: float | None,
    shares: Mapping[str, float],
) -> Pace:
    """From a run's JSON lines. The link is busy with a frame for as long as its bytes take."""
    answered = [line for line in lines if "ms" in line]
    stages = {"head": fmean(line["ms"]["head"] for line in answered) / 1e3}
    sent = [line for line in answered if "bytes" in line]
    if sent:
        stages["edge"] = fmean(line["ms"]["tail"] for line in sent) / 1e3
        if link_bits_s is not None:
            stages["link"] = fmean(line["bytes"]["up"] for line in sent) * 8 / link_bits_s
    return Pace(
        frames=len(answered),
        frames_per_s=summary.frames_per_s,
        stages_s=stages,
        shares=shares,
    )


def _lines(path: Path) -> Sequence[Mapping[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


class ThreadWatch:
    """Processor time of this process's threads by name, as Linux tells it, between the first look
    and the last; give `look` to a run as its progress."""

    def __init__(self) -> None:
        self._first: dict[str, float] = {}
        self._last: dict[str, float] = {}
        self._began_s = self._ended_s = 0.0

    def look(self, progress: Progress) -> None:
        """Threads that have ended keep what they had at the last look."""
        taken = {
            thread.name: taken_s
            for thread in threading.enumerate()
            if (taken_s := _taken_s(thread.native_id)) is not None
        }
        if not progress.frames:
            return
        if not self._first:
            self._first, self._began_s = taken, progress.busy_s
        self._last, self._ended_s = {**self._last, **taken}, progress.busy_s

    def shares(self) -> dict[str, float]:
        """Of one core."""
        lasted_s = self._ended_s - self._began_s
        if lasted_s <= 0:
            return {}
        return {
            shown: (self._last[name] - self._first.get(name, 0.0)) / lasted_s
            for name, shown in _THREADS.items()
            if name in self._last
        }


def _taken_s(thread_id: int | None) -> float | None:
    try:
        text = Path(f"/proc/self/task/{thread_id}/schedstat").read_text()
    except OSError:
        return None
    return int(text.split()[0]) / 1e9
