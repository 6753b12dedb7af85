"""Who wins on which link with which device, and how near the controller comes to it.

Every way of a detector's bundle (local, each cut, the picture itself) is measured once on this
machine, photo by photo, in processor time of one thread. Everything else is simulated time: the
link emulator's own model carries the measured bytes, and the device takes `slow-down` times what
this machine took; the edge takes `edge-speedup` times less. The controller knows what a device
measures of itself at its first start, and learns of link and edge from its own frames.

Then a drive-by: a link that changes every few seconds, the controller against each fixed way.

Needs a tar of COCO photos, which Headtail does not hold; without it the benchmark is skipped.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Final

import cv2
from rich.console import Console
from rich.progress import Progress

from headtail.bench.report import Cell as Entry
from headtail.bench.report import Report
from headtail.data_folder import DATA, in_data
from headtail.provision import ensure_bundle
from headtail.region.cells import (
    CONTROLLER,
    Cell,
    Grid,
    Pace,
    at_any_time_s,
    contenders,
    controllers,
    in_time_hz,
    photo_order,
    run_controller,
    survey,
)
from headtail.region.chart import draw_drive, draw_map
from headtail.region.replay import Fixed, Run, Setting, replay
from headtail.region.samples import Samples, take_samples
from headtail_device.controller import Goal
from headtail_device.placement import LOCAL, Offload, way_name
from headtail_fabric.emulator import parse_link
from headtail_models.bundle import Bundle, open_bundle
from headtail_models.bundle.manifest import Manifest
from headtail_models.data.coco_photos import CocoPhotos

PHOTOS: Final = "coco-photos.tar"
DRIVE: Final = (
    "6s wifi-good; 4s lte; 4s lte-bad; 3s wifi-bad; 5s rate=150kbit rtt=100ms jitter=30ms; "
    "2s outage; 5s 3g; 4s lte; 5s 5g; 3s wifi-bad; repeat"
)
_DRIVE_S: Final = 123.0
_MARGIN: Final = 0.98


@dataclass(frozen=True, slots=True, kw_only=True)
class _Picture:
    way: Offload
    drop: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--bundle", default="yolov3-tiny-coco", help="a detector's")
    parser.add_argument(
        "--photos",
        type=Path,
        metavar="TAR",
        help=f"default: ${DATA}/{PHOTOS}",
        default=in_data(PHOTOS),
    )
    parser.add_argument("--split", default="val2017", help="of the photos (default val2017)")
    parser.add_argument("--limit", type=int, default=16, help="photos to measure on (default 16)")
    parser.add_argument("--frames", type=int, default=320, help="a controller's run (default 320)")
    parser.add_argument(
        "--rates", type=_numbers, default="0.1,0.25,0.5,1,2,5,10,50", help="Mbit/s, by commas"
    )
    parser.add_argument("--rtts", type=_numbers, default="5,30,100", help="ms, by commas")
    parser.add_argument("--slowdowns", type=_numbers, default="1,5,20", help="by commas")
    parser.add_argument(
        "--edge-speedup", type=float, default=1.0, help="how fast the edge is (default 1)"
    )
    parser.add_argument("--deadline", type=float, default=2.0, help="s a frame (default 2)")
    parser.add_argument("--period", type=float, default=0.1, help="s between frames (default 0.1)")
    parser.add_argument("--max-drop", type=float, default=0.01, help="of accuracy, for all ways")
    parser.add_argument(
        "--picture",
        type=_picture,
        action="append",
        metavar="CODEC:QUALITY:DROP",
        help="a picture codec and the accuracy it costs; the first is what the controller is to "
        "beat (default: those that the bundle knows, the lightest JPEG first)",
    )
    parser.add_argument("--drive", default=DRIVE, metavar="LINK", help="the drive-by's trace")
    parser.add_argument("--drive-s", type=float, default=_DRIVE_S, help="how long it lasts")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write all cells to FILE")
    parser.add_argument("--plot", type=Path, metavar="PNG", help="draw the winner map")
    parser.add_argument("--plot-drive", type=Path, metavar="PNG", help="draw the last drive-by")


def run(options: argparse.Namespace) -> Report:
    report = Report(
        "region",
        {
            "photos": options.limit,
            "frames": options.frames,
            "deadline_s": options.deadline,
            "period_s": options.period,
            "max_drop": options.max_drop,
            "edge_speedup": options.edge_speedup,
            "time": "simulated, but stages and codecs measured here: processor time, one thread",
            "goal": "lowest-latency",
        },
    )
    if options.photos is None or not options.photos.exists():
        where = f"at {options.photos}" if options.photos else f": name one with --photos, or {DATA}"
        report.skip(f"no photo set {where}")
        return report
    bundle = open_bundle(ensure_bundle(options.bundle))
    pictures = options.picture or _known(bundle.manifest, options.max_drop)
    if not pictures:
        report.skip(f"{bundle.name} knows no picture codec: name one with --picture")
        return report
    report.settings["bundle"] = bundle.name
    grid = Grid(
        rates_bits_s=tuple(rate * 1e6 for rate in options.rates),
        rtts_s=tuple(rtt / 1000 for rtt in options.rtts),
        slowdowns=options.slowdowns,
    )
    pace = Pace(frames=options.frames, period_s=options.period, deadline_s=options.deadline)
    goal = Goal(max_drop=options.max_drop, seconds_a_point=0.0)
    with Progress(console=Console(stderr=True), transient=True) as progress:
        samples = _measure(bundle, options, pictures, progress)
        task = progress.add_task("cells", total=len(grid))
        cells = []
        for cell in survey(samples, controllers(samples, goal), grid, pace):
            cells.append(cell)
            progress.advance(task)
        drives = {
            slowdown: _drive(samples, goal, slowdown, pace, options) for slowdown in grid.slowdowns
        }
    rivals = (LOCAL, way_name(pictures[0].way))
    _ways_table(report, samples)
    _fill(report, cells, rivals)
    _fill_drives(report, drives, pace)
    if options.markdown is not None:
        options.markdown.write_text(_markdown(cells))
    if options.plot is not None:
        draw_map(cells, grid, rivals, options.plot)
    if options.plot_drive is not None:
        last = drives[grid.slowdowns[-1]]
        shown = {name: last[name] for name in (CONTROLLER, _best(last, pace), *rivals)}
        draw_drive(shown, parse_link(options.drive), options.drive_s, options.plot_drive)
    return report


def _known(manifest: Manifest, max_drop: float) -> list[_Picture]:
    """The picture codecs of the bundle that are accurate enough, the lightest JPEG first."""
    known = [one for one in manifest.pictures if one.drop <= max_drop]
    known.sort(key=lambda one: (one.codec != "jpeg", one.mean_bytes))
    return [
        _Picture(way=Offload(codec=one.codec, quality=one.quality), drop=one.drop) for one in known
    ]


def _measure(
    bundle: Bundle,
    options: argparse.Namespace,
    pictures: Sequence[_Picture],
    progress: Progress,
) -> Samples:
    photos = CocoPhotos(options.photos).photos(options.split, limit=options.limit)
    task = progress.add_task("measuring", total=None)
    threads = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        return take_samples(
            bundle,
            [photo.picture for photo in photos],
            {one.way: one.drop for one in pictures},
            max_drop=options.max_drop,
            edge_speedup=options.edge_speedup,
            on_way=lambda way: progress.update(task, description=f"measured {way}"),
        )
    finally:
        cv2.setNumThreads(threads)
        progress.remove_task(task)


def _drive(
    samples: Samples, goal: Goal, slowdown: float, pace: Pace, options: argparse.Namespace
) -> dict[str, Run]:
    """The controller's run and each fixed way's."""
    setting = Setting(
        trace=parse_link(options.drive),
        slowdown=slowdown,
        deadline_s=pace.deadline_s,
        period_s=pace.period_s,
        order=photo_order(samples, pace),
        until_s=options.drive_s,
    )
    controller = controllers(samples, goal)(slowdown)
    return {
        CONTROLLER: run_controller(controller, samples, setting),
        **{way: replay(Fixed(way), samples.by_way, setting) for way in contenders(samples)},
    }


def _best(runs: dict[str, Run], pace: Pace) -> str:
    fixed = [name for name in runs if name != CONTROLLER]
    return min(fixed, key=lambda name: at_any_time_s(runs[name], pace.period_s))


def _ways_table(report: Report, samples: Samples) -> None:
    drops = {option.way: option.drop for option in samples.options()}
    report.table(
        "What was measured here, means a photo",
        ["way", "device ms", "edge ms", "bytes", "drop"],
        [
            [
                way,
                1e3 * fmean(one.device_s for one in taken),
                1e3 * fmean(one.server_s for one in taken),
                f"{samples.mean_bytes(way):,.0f}",
                f"{drops[way]:+.4f}",
            ]
            for way, taken in samples.by_way.items()
        ],
    )


def _fill(report: Report, cells: Sequence[Cell], rivals: tuple[str, str]) -> None:
    columns = ["slow-down, round trip, link", "best fixed way", "ms", "controller", "ms", "regret"]
    columns += ["p50", "p95", "late", "bytes", rivals[0], rivals[1]]
    report.table(
        "Mean latencies; p50 and p95 are regrets", columns, [_row(c, rivals) for c in cells]
    )
    for share, name in ((50, "p50"), (95, "p95")):
        report.figure(f"regret_max_{name}", max(cell.regret_at(share) for cell in cells))
    report.figure("regret_mean", fmean(cell.regret for cell in cells))
    reachable = [_MARGIN * min(c.fixed[one].mean_s for one in rivals) for c in cells]
    beaten = [c.fixed[c.best].mean_s <= at_s for c, at_s in zip(cells, reachable, strict=True)]
    report.figure("cells_where_a_cut_beats_both", fmean(beaten))
    report.figure("controller_missed_deadlines", fmean(c.controller.missed for c in cells))
    report.figure("local_missed_deadlines", fmean(c.fixed[rivals[0]].missed for c in cells))
    report.figure("picture_missed_deadlines", fmean(c.fixed[rivals[1]].missed for c in cells))
    report.note(
        "The best fixed way is chosen in hindsight, cell by cell. Regret: the controller's mean "
        "latency over its, first frames and tries included."
    )
    report.target("controller_regret_max", max(cell.regret for cell in cells), "<=", 1.10)
    report.target("cells_better_than_both", fmean(cell.beats(rivals) for cell in cells), ">=", 0.33)


def _row(cell: Cell, rivals: Sequence[str]) -> list[Entry]:
    run = cell.controller
    place = f"{cell.slowdown:g}x, {cell.rtt_s * 1e3:g} ms, {cell.rate_bits_s / 1e6:g} Mbit/s"
    return [
        place,
        cell.best,
        f"{1e3 * cell.fixed[cell.best].mean_s:,.0f}",
        run.usual_way + (" *" if cell.beats(rivals) else ""),
        f"{1e3 * run.mean_s:,.0f}",
        f"{cell.regret:.3f}",
        f"{cell.regret_at(50):.3f}",
        f"{cell.regret_at(95):.3f}",
        f"{run.missed:.3f}",
        f"{run.mean_bytes:,.0f}",
        *(f"{1e3 * cell.fixed[way].mean_s:,.0f}" for way in rivals),
    ]


def _fill_drives(report: Report, drives: dict[float, dict[str, Run]], pace: Pace) -> None:
    for slowdown, runs in drives.items():
        best = _best(runs, pace)
        rows: list[list[Entry]] = [
            [
                name,
                1e3 * at_any_time_s(one, pace.period_s),
                1e3 * one.percentile_s(50),
                1e3 * one.percentile_s(95),
                in_time_hz(one),
                one.missed,
                f"{one.mean_bytes:,.0f}",
            ]
            for name, one in runs.items()
        ]
        columns = ["way", "ms at any time", "p50", "p95", "in time, 1/s", "late", "bytes a frame"]
        made = runs[CONTROLLER]
        report.table(
            f"Drive-by, device {slowdown:g} times as slow; the controller changed {made.changes} "
            f"times and tried {made.tries}",
            columns,
            rows,
        )
        ratio = at_any_time_s(made, pace.period_s) / at_any_time_s(runs[best], pace.period_s)
        report.figure(f"drive_by_ratio_{slowdown:g}x", ratio)
        report.figure(f"drive_by_in_time_ratio_{slowdown:g}x", _in_time_ratio(runs))
    report.note(
        "At any time: a slow frame counts for as long as it takes. Drive-by ratios are against the "
        "fixed way that is best over the whole drive."
    )


def _in_time_ratio(runs: dict[str, Run]) -> float:
    most = max(in_time_hz(run) for name, run in runs.items() if name != CONTROLLER)
    return in_time_hz(runs[CONTROLLER]) / most if most else float("inf")


def _markdown(cells: Sequence[Cell]) -> str:
    """Per cell and contender: p50 / p95 in ms, share late, bytes."""
    ways = list(cells[0].fixed)
    head = ["slow-down", "round trip", "link", CONTROLLER, *ways]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for cell in cells:
        runs: list[tuple[str, Run]] = [(CONTROLLER, cell.controller), *cell.fixed.items()]
        parts = [
            f"{cell.slowdown:g}",
            f"{cell.rtt_s * 1e3:g} ms",
            f"{cell.rate_bits_s / 1e6:g} Mbit/s",
            *(_brief(run, best=name == cell.best) for name, run in runs),
        ]
        lines.append(f"| {' | '.join(parts)} |")
    return "\n".join(lines) + "\n"


def _brief(run: Run, *, best: bool) -> str:
    times = f"{1e3 * run.percentile_s(50):,.0f} / {1e3 * run.percentile_s(95):,.0f}"
    late = f", {run.missed:.0%} late" if run.missed else ""
    text = f"{times}{late}, {run.mean_bytes / 1e3:.1f} kB"
    return f"**{text}**" if best else text


def _numbers(text: str) -> tuple[float, ...]:
    numbers = tuple(float(word) for word in text.split(","))
    if not all(number > 0 for number in numbers):
        raise argparse.ArgumentTypeError("numbers above 0, by commas")
    return numbers


def _picture(text: str) -> _Picture:
    codec, quality, drop = text.split(":")
    return _Picture(way=Offload(codec=codec, quality=int(quality)), drop=float(drop))
