"""Accuracy against payload bytes: a bundle's cuts beside JPEG, WebP and AVIF of the picture.

Rivals send the picture at its own size, as the network sees it, or shrunk and enlarged again on
the server. Needs photos, which Headtail does not hold; without them the benchmark is skipped. What
was measured stays in the cache, so that a second run takes seconds.
"""

import argparse
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import Progress

from headtail.bench.report import Report
from headtail.data_folder import DATA, in_data
from headtail_fabric.config import cache_home
from headtail_models import zoo
from headtail_models.bundle import Bundle, BundleCache, open_bundle
from headtail_models.bundle.manifest import DetectTask, Manifest, Measured
from headtail_models.entrance import pictures_of
from headtail_models.rate import chart, codecs
from headtail_models.rate.comparison import Bootstrap, Ratio, bytes_of, compare
from headtail_models.rate.evaluation import Evaluation, Evaluator, Point
from headtail_models.rate.fitted import fitted_method
from headtail_models.rate.method import (
    NATURAL,
    CutRun,
    Method,
    cut_methods,
    natural_methods,
    natural_runs,
    picture_methods,
    whole_network,
)
from headtail_models.rate.samples import SampleSet, file_for, open_samples
from headtail_models.rate.store import Store
from headtail_models.rate.view import Viewer
from headtail_models.zoo.records import Accuracy, encode

DETECTOR_LEVELS: Final = (0.80, 0.85, 0.90, 0.92, 0.94, 0.96)
CLASSIFIER_LEVELS: Final = (0.66, 0.70, 0.73, 0.80, 0.85, 0.90)
_COLUMNS: Final = ("sent", "setting", "bytes", "p90", "agreement", "95 %")
_FITTING: Final = 60
"""Calibration samples that tables for natural cuts are fitted on."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--bundle", metavar="BUNDLE", help="a bundle's path or name; default: yolov3-tiny-coco"
    )
    parser.add_argument("--photos", type=Path, metavar="TAR", help=f"default: of ${DATA}")
    parser.add_argument("--cut", action="append", metavar="NAME", help="this cut only; repeatable")
    parser.add_argument(
        "--limit", type=_count, metavar="N", help="take N photos only; targets are not judged"
    )
    parser.add_argument(
        "--codec", choices=("jpeg", "webp", "avif"), action="append", help="these rivals only"
    )
    parser.add_argument("--draws", type=_count, default=300, help="of the bootstrap (default 300)")
    parser.add_argument("--threads", type=_count, default=1, help="for each run (default 1)")
    parser.add_argument("--fresh", action="store_true", help="measure again what is in the cache")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables to FILE")
    parser.add_argument(
        "--measured", type=Path, metavar="FILE", help="write what the bundle's recipe takes in"
    )
    parser.add_argument("--plot", type=Path, metavar="PNG", help="draw the curves")


def run(options: argparse.Namespace) -> Report:
    report = Report(
        "rate-accuracy",
        {"limit": options.limit, "draws": options.draws, "threads": options.threads},
    )
    with _bundle(options.bundle) as bundle:
        photos = options.photos or in_data(file_for(bundle.manifest))
        if photos is None or not photos.exists():
            report.skip(
                f"no photo set at {photos}"
                if photos
                else f"no photo set: name one with --photos, or its folder with {DATA}"
            )
            return report
        samples = open_samples(bundle.manifest, photos)
        evaluation = _evaluate(bundle, samples, options)
    report.settings |= {
        "bundle": bundle.name,
        "photos": f"{evaluation.samples} of {samples.described}",
        "codecs": codecs.versions(),
    }
    _fill(report, bundle, evaluation, options)
    if options.measured is not None:
        options.measured.write_bytes(encode(_record(bundle.manifest, evaluation, samples)))
    return report


def _evaluate(bundle: Bundle, samples: SampleSet, options: argparse.Namespace) -> Evaluation:
    viewer = Viewer(pictures_of(bundle.manifest))
    whole = whole_network(bundle.open_stage(bundle.full(), threads=options.threads))
    evaluator = Evaluator(bundle, samples.report(options.limit), whole)
    runs = list(natural_runs(bundle, viewer, cuts=options.cut, threads=options.threads))
    methods: list[Method] = [
        *cut_methods(bundle, viewer, cuts=options.cut, threads=options.threads),
        *natural_methods(bundle, runs),
        *_fitted(bundle, runs, samples),
        *picture_methods(viewer, whole, kinds=options.codec or codecs.available()),
    ]
    store = Store(cache_home() / "rate-accuracy", fresh=options.fresh)
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("methods", total=len(methods))
        return evaluator.evaluate(
            methods,
            store,
            versions=codecs.versions(),
            progress=lambda done: bar.update(task, completed=done),
        )


def _fitted(bundle: Bundle, runs: Sequence[CutRun], samples: SampleSet) -> list[Method]:
    if not runs:
        return []
    method = fitted_method(bundle, runs, samples.calibration(_FITTING))
    return [] if method is None else [method]


def _fill(
    report: Report, bundle: Bundle, evaluation: Evaluation, options: argparse.Namespace
) -> None:
    bootstrap = Bootstrap(evaluation.samples, draws=options.draws)
    measures = tuple(evaluation.full.labelled())
    columns = (*_COLUMNS, *measures)
    rows = [_row(point, bootstrap) for point in evaluation.points]
    full = ", ".join(f"{name} {value:.3f}" for name, value in evaluation.full.labelled().items())
    title = f"{evaluation.samples} photos; full model: {full}"
    report.figure("samples", evaluation.samples)
    report.figure("stored_bytes", evaluation.stored_bytes)
    for name, value in evaluation.full.labelled().items():
        report.figure(f"full_{_key(name)}", value)
    report.table(title, columns, rows)
    lines = [f"{title}.", "", *_markdown(columns, rows), ""]
    families = evaluation.families()
    natural = {name: points for name, points in families.items() if name.startswith(NATURAL)}
    pictures = {name: points for name, points in families.items() if not points[0].cut}
    own = [name for name in families if name not in natural and name not in pictures]
    rivals = {name: {name: points} for name, points in pictures.items()}
    rivals |= {"best natural cut": natural, "best of all": pictures | natural}
    for family in own:
        lines += _compare(report, bundle, families[family], rivals, bootstrap, options)
    if options.markdown is not None:
        options.markdown.write_text("\n".join(lines), encoding="utf-8")
    if options.plot is not None:
        chart.draw(
            evaluation,
            own,
            options.plot,
            title=f"{bundle.name}, {evaluation.samples} photos",
            bootstrap=bootstrap,
            measure=measures[0],
        )


def _compare(
    report: Report,
    bundle: Bundle,
    points: Sequence[Point],
    rivals: Mapping[str, Mapping[str, Sequence[Point]]],
    bootstrap: Bootstrap,
    options: argparse.Namespace,
) -> list[str]:
    """Bytes at equal agreement: a table, and for the default cut the targets."""
    detects = isinstance(bundle.manifest.task, DetectTask)
    levels = DETECTOR_LEVELS if detects else CLASSIFIER_LEVELS
    ratios = {
        name: {level: compare(points, group, level, bootstrap) for level in levels}
        for name, group in rivals.items()
        if group
    }
    family = points[0].family
    columns = ("rival", *(f"at {level:.2f}" for level in levels))
    rows = [[f"{family}: bytes", *(_bytes(bytes_of(points, level)) for level in levels)]]
    rows += [[name, *map(_ratio, found.values())] for name, found in ratios.items()]
    title = f"{family}: its bytes over the rival's, at equal agreement [95 %]"
    report.table(title, columns, rows)
    if points[0].cut == bundle.manifest.default_cut:
        for goal in _DETECTOR_GOALS if detects else _CLASSIFIER_GOALS:
            _judge(report, goal, ratios, whole=options.limit is None)
    return [f"{title}.", "", *_markdown(columns, rows), ""]


def _judge(
    report: Report, goal: "_Goal", ratios: Mapping[str, Mapping[float, Ratio]], *, whole: bool
) -> None:
    found = ratios.get(goal.rival, {}).get(goal.agreement)
    if found is None:
        return
    if found.value is None:
        report.note(f"{goal.figure}: agreement {goal.agreement} is not reached by both")
    elif whole:
        report.target(goal.figure, found.value, "<=", goal.target)
    else:
        # A few photos tell nothing of a network.
        report.figure(goal.figure, found.value)


@dataclass(frozen=True, slots=True)
class _Goal:
    """A ratio of bytes at an agreement."""

    figure: str
    rival: str
    agreement: float
    target: float


_DETECTOR_GOALS: Final = (
    _Goal("detection_bytes_vs_native_jpeg", "jpeg, native", 0.90, 0.2),
    _Goal("detection_bytes_vs_best_codec", "best of all", 0.90, 0.33),
)
_CLASSIFIER_GOALS: Final = (
    _Goal("classification_bytes_vs_jpeg224", "jpeg, network size", 0.73, 0.4),
)


def _record(manifest: Manifest, evaluation: Evaluation, samples: SampleSet) -> Accuracy:
    """What goes into the manifest of the next build."""
    metric, full = next(iter(evaluation.full.labelled().items()))
    cuts: dict[str, tuple[Measured, ...]] = {}
    for point in evaluation.points:
        cut = manifest.cut(point.cut)
        if cut is None or point.codec not in cut.codecs:
            continue
        value = point.tally.labelled()[metric]
        measured = Measured(
            codec=point.codec,
            value=round(value, 4),
            drop=round(full - value, 4),
            mean_bytes=round(point.mean_bytes()),
        )
        cuts[cut.name] = (*cuts.get(cut.name, ()), measured)
    return Accuracy(
        network=manifest.name,
        metric=metric,
        split=f"{evaluation.samples} photos of {samples.described}",
        full_value=round(full, 4),
        cuts=cuts,
    )


def _row(point: Point, bootstrap: Bootstrap) -> list[str]:
    spread = bootstrap.interval([point.tally.agreement(one) for one in bootstrap.weights])
    sizes = sorted(point.sizes.tolist())
    return [
        point.family,
        point.setting,
        f"{point.mean_bytes():,.0f}",
        f"{sizes[int(0.9 * (len(sizes) - 1))]:,}",
        f"{point.tally.agreement():.3f}",
        f"{spread.low:.3f} .. {spread.high:.3f}",
        *(f"{value:.3f}" for value in point.tally.labelled().values()),
    ]


def _ratio(ratio: Ratio) -> str:
    if ratio.value is None:
        return "rival: not reached" if ratio.ours is not None else "not reached"
    if ratio.interval is None:
        return f"{ratio.value:.2f}"
    return f"{ratio.value:.2f} [{ratio.interval.low:.2f}, {ratio.interval.high:.2f}]"


def _bytes(size: float | None) -> str:
    return "not reached" if size is None else f"{size:,.0f}"


def _key(name: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in name.lower())


def _markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * 2}{'---:|' * (len(columns) - 2)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)


@contextmanager
def _bundle(reference: str | None) -> Iterator[Bundle]:
    if reference is not None:
        yield open_bundle(BundleCache().find(reference))
        return
    with tempfile.TemporaryDirectory() as folder:
        yield open_bundle(zoo.build(zoo.known()[0], Path(folder) / "bundle"))


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError(text)
    return value
