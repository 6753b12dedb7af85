"""Early exits: how many pictures leave, what it saves, and what it costs in accuracy.

Thresholds are chosen on the calibration split and measured on the test split. Segments are really
skipped: times are those of the stages that a picture needed, one picture at a time. Needs CIFAR-10,
which Headtail does not hold; without it the benchmark is skipped.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headtail.bench.report import Cell, Report
from headtail.data_folder import DATA, data_folder
from headtail.provision import ensure_bundle
from headtail_fabric.config import cache_home
from headtail_fabric.errors import ConfigError, ResourceError
from headtail_models.bundle import Bundle, open_bundle
from headtail_models.bundle.manifest import Cut
from headtail_models.data.cifar10 import FILE, Cifar10, Split
from headtail_models.exits.cascade import Cascade
from headtail_models.exits.chart import Alone, draw
from headtail_models.exits.criteria import CRITERIA
from headtail_models.exits.survey import (
    Observed,
    PolicyPoint,
    Surveyed,
    compare_policies,
    survey,
)
from headtail_models.exits.thresholds import CLOSED, Point, measure
from headtail_models.exits.timing import Timed, time_points
from headtail_models.task import task_for
from headtail_models.zoo.resnet_cifar import NAME

MAX_DROP: Final = 0.01
_NOTE: Final = (
    "MMAC of curves and policies count every branch on the way, one that is closed too; a device "
    "does not run those, nor do the times and device MMAC count them."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "data", type=Path, nargs="?", metavar="DIR", help=f"holds {FILE}; default ${DATA}"
    )
    parser.add_argument("--bundle", default=NAME, help=f"a bundle's path or name (default {NAME})")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="for the decoded pictures")
    parser.add_argument(
        "--limit", type=_count, metavar="N", help="N pictures a split; targets are not judged"
    )
    parser.add_argument(
        "--timed", type=_count, default=400, metavar="N", help="pictures timed (default 400)"
    )
    parser.add_argument("--threads", type=_count, default=1, help="for each run (default 1)")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables to FILE")
    parser.add_argument("--plot", type=Path, metavar="PNG", help="draw the curves")


def run(options: argparse.Namespace) -> Report:
    report = Report(
        "exits",
        {
            "limit": options.limit,
            "threads": options.threads,
            "chosen on": "calibration split, surely enough in 9 cases of 10",
            "times": "processor time, pictures one by one, stage by stage",
        },
    )
    folder = options.data or data_folder()
    if folder is None or not (folder / FILE).exists():
        report.skip(f"no {FILE}: name the folder that holds it, or set {DATA}")
        return report
    pictures = Cifar10(folder / FILE, cache=options.cache or cache_home() / "data")
    bundle = open_bundle(ensure_bundle(options.bundle))
    report.settings["bundle"] = bundle.name
    _measure(report, bundle, pictures, options)
    return report


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return value


@dataclass(frozen=True, slots=True)
class Shown:
    """A table, as it is printed and written."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]


class _Inputs:
    """The pictures of a split as a device prepares them."""

    def __init__(self, bundle: Bundle, pictures: Cifar10, limit: int | None) -> None:
        self._task, self._pictures, self._limit = task_for(bundle.manifest), pictures, limit

    def of(self, split: Split) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Inputs (N, 3, h, w) and labels (N,); with a limit, of all classes alike."""
        whole = self._pictures.split(split)
        if self._limit is not None:
            places = np.linspace(0, len(whole) - 1, min(self._limit, len(whole)))
            whole = whole.take(places.astype(np.int64))
        tensors = [self._task.prepare(picture)[0] for picture in whole.pictures]
        return np.concatenate(tensors), np.asarray(whole.labels)


def _measure(
    report: Report, bundle: Bundle, pictures: Cifar10, options: argparse.Namespace
) -> None:
    cut = bundle.cut(bundle.manifest.default_cut)
    if tuple(pictures.classes) != bundle.manifest.labels:
        raise ConfigError(f"{bundle.name} knows other classes than {', '.join(pictures.classes)}")
    cascade = Cascade.of(cut, partial(bundle.open_stage, threads=options.threads))
    inputs = _Inputs(bundle, pictures, options.limit)
    (held_inputs, held_labels), (test_inputs, test_labels) = (
        inputs.of(split) for split in ("calibration", "test")
    )
    held = Observed(logits=cascade.logits(held_inputs), labels=held_labels)
    test = Observed(logits=cascade.logits(test_inputs), labels=test_labels)
    report.figure("calibration_pictures", held.labels.size)
    report.figure("test_pictures", test.labels.size)
    costs = exit_costs(cut)
    surveys = [survey(held, test, costs, criterion=one, max_drop=MAX_DROP) for one in CRITERIA]
    main = next(one for one in surveys if one.criterion == cut.exits()[0].criterion)
    alone = alone_points(main, cut)
    order = np.random.default_rng(0).permutation(len(test_inputs))
    some = test_inputs[order[: options.timed]]
    whole_ms, timed = time_points(bundle, cut, some, threads=options.threads)
    policies = compare_policies(main, costs)
    shown = [
        *_fill_curves(report, surveys, alone, bundle.manifest.full.macs),
        _fill_times(report, whole_ms, timed, len(some)),
        _fill_policies(report, policies),
    ]
    for table in shown:
        report.table(table.title, table.columns, table.rows)
    report.note(_NOTE)
    _fill_targets(report, main, whole=options.limit is None)
    if options.markdown is not None:
        _write(options.markdown, _document(report, shown))
    if options.plot is not None:
        title = f"{bundle.name}, {test.labels.size} test pictures"
        draw(surveys, alone, policies, bundle.manifest.full.macs, options.plot, title=title)


def exit_costs(cut: Cut) -> tuple[float, ...]:
    """Multiply-adds of a picture that leaves at each exit, and at the end."""
    sums = np.cumsum([gate.macs for gate in cut.gates])
    return (*map(float, sums), float(sums[-1] + cut.head.macs + cut.tail.macs))


def alone_points(surveyed: Surveyed, cut: Cut) -> list[Alone]:
    """Each exit answering everything, without the branches before it: the small static networks
    that the exits compete with."""
    found, exits = [], cut.exits()
    for level, gate in enumerate(exits):
        only = [CLOSED] * len(exits)
        only[level] = 0.0
        trunks = sum(one.trunk.macs for one in exits[: level + 1] if one.trunk is not None)
        point = measure(surveyed.test, exit_costs(cut), only)
        found.append(
            Alone(name=f"{gate.name} alone", point=replace(point, cost=trunks + gate.branch.macs))
        )
    return found


def _fill_curves(
    report: Report, surveys: Sequence[Surveyed], alone: Sequence[Alone], full_macs: float
) -> list[Shown]:
    rows: list[Sequence[Cell]] = []
    for one in surveys:
        name = one.criterion.replace("-", "_")
        report.figure(f"share_{name}", one.chosen.early)
        report.figure(f"drop_{name}", one.chosen.drop)
        rows.append(_point_row(f"{one.criterion}, -1 point", one.chosen, full_macs))
        rows += [_point_row(one.criterion, point, full_macs) for point in one.curve]
    rows += [_point_row(part.name, part.point, full_macs) for part in alone]
    errors = [
        (
            f"exit {level}, {one.criterion}",
            f"{one.temperatures[level]:.3f}",
            f"{before:.4f}",
            f"{after:.4f}",
        )
        for one in surveys[:1]
        for level, (before, after) in enumerate(one.errors)
    ]
    return [
        Shown(
            "Accuracy on the test split, thresholds from the calibration split",
            ("exits", "leave early", "at each", "MMAC", "of full", "top-1", "drop"),
            rows,
        ),
        Shown(
            "Temperatures, and how far confidence and accuracy lie apart (ECE, test split)",
            ("exit", "temperature", "ECE before", "after"),
            errors,
        ),
    ]


def _point_row(name: str, point: Point, full_macs: float) -> Sequence[Cell]:
    return (
        name,
        f"{point.early:.3f}",
        " + ".join(f"{share:.3f}" for share in point.coverage),
        f"{point.cost / 1e6:.2f}",
        f"{point.cost / full_macs:.2f}",
        f"{point.accuracy:.4f}",
        f"{point.drop:+.4f}",
    )


def _fill_times(report: Report, whole_ms: float, timed: Sequence[Timed], pictures: int) -> Shown:
    report.figure("cpu_ms_whole", whole_ms)
    rows: list[Sequence[Cell]] = [
        ("whole network, one stage", "-", "-", "-", f"{whole_ms:.3f}", "-")
    ]
    for one in timed:
        name = one.point.replace("-", "_")
        report.figure(f"cpu_ms_device_{name}", one.device_ms)
        report.figure(f"cpu_ms_local_{name}", one.local_ms)
        report.figure(f"bytes_{name}", one.mean_bytes)
        rows.append(
            (
                one.point,
                f"{one.early:.3f}",
                f"{one.device_macs / 1e6:.2f}",
                f"{one.device_ms:.3f}",
                f"{one.local_ms:.3f}",
                f"{one.mean_bytes:.0f}",
            )
        )
    return Shown(
        f"Really skipped: the mean of {pictures} test pictures, one by one",
        ("point", "leave early", "device MMAC", "device CPU ms", "with tail CPU ms", "bytes sent"),
        rows,
    )


def _fill_policies(report: Report, policies: Sequence[PolicyPoint]) -> Shown:
    rows: list[Sequence[Cell]] = []
    for one in policies:
        name = one.policy.lower().replace(" ", "_")
        report.figure(f"guessed_{name}", one.guessed)
        report.figure(f"label_bits_{name}", one.label_bits)
        rows.append(
            (
                one.policy,
                f"{sum(one.coverage):.3f}",
                f"{one.cost / 1e6:.2f}",
                f"{one.accuracy:.4f}",
                f"{one.label_bits:.4f}",
                f"{one.answer_bits:.4f}",
                f"{one.window_bits:.3f}",
                f"{one.guessed:.3f}",
                f"{one.guessed / one.by_chance:.2f}",
            )
        )
    return Shown(
        "What the exits tell an observer, at the same rates of leaving",
        (
            "policy",
            "leave early",
            "MMAC",
            "top-1",
            "bits a frame: class",
            "answer",
            "bits a window",
            "guessed",
            "times chance",
        ),
        rows,
    )


def _fill_targets(report: Report, main: Surveyed, *, whole: bool) -> None:
    share, drop = main.chosen.early, main.chosen.drop
    report.figure("top1_full", main.chosen.accuracy + drop)
    report.figure("top1_with_exits", main.chosen.accuracy)
    if whole:
        report.target("cifar_exit_share_at_minus_1pt", share, ">=", 0.5)
        report.target("cifar_exit_drop", drop, "<=", MAX_DROP)
    else:
        # A few pictures tell nothing of a network.
        report.figure("cifar_exit_share_at_minus_1pt", share)
        report.figure("cifar_exit_drop", drop)


def _document(report: Report, shown: Sequence[Shown]) -> str:
    lines = [
        "# Early exits",
        "",
        "Written by `headtail bench exits --markdown`. Settings: "
        + ", ".join(f"{key} = {value}" for key, value in report.settings.items())
        + ".",
        "",
    ]
    lines += [
        f"- `{one.name}` {one.figure:.4g} (target {one.op} {one.target:g}): "
        + ("met" if one.met else "missed")
        for one in report.targets
    ]
    lines += ["", _NOTE]
    for table in shown:
        lines += ["", f"## {table.title}", "", f"| {' | '.join(table.columns)} |"]
        lines.append(f"|---|{'---:|' * (len(table.columns) - 1)}")
        lines += [f"| {' | '.join(map(str, row))} |" for row in table.rows]
    return "\n".join(lines) + "\n"


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ResourceError(f"can't write {path}: {error.strerror or error}") from None
