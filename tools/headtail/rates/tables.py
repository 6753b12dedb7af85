"""What `headtail bench rate-accuracy` says of its points: tables, figures, targets, the chart."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headtail.bench.report import Report
from headtail_models.bundle.manifest import DetectTask, LogMel, Manifest
from headtail_models.data.imagenet_photos import CLASSES
from headtail_models.rate import chart
from headtail_models.rate.block import PUBLISHED
from headtail_models.rate.comparison import Bootstrap, Ratio, bytes_of, compare
from headtail_models.rate.cut import NATURAL, TRAINED
from headtail_models.rate.evaluation import Evaluation, Point

_COLUMNS: Final = ("sent", "setting", "bytes", "p90", "agreement", "95 %")


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A ratio of bytes at an agreement, and the most that it may be."""

    figure: str
    rival: str
    agreement: float
    target: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Aims:
    """The agreements at which bytes are compared for a kind of network, its targets, and what its
    first measure means."""

    levels: tuple[float, ...]
    goals: tuple[Goal, ...] = ()
    meaning: str = "{} against the labels"


_DETECTOR: Final = Aims(
    levels=(0.80, 0.85, 0.90, 0.92, 0.94, 0.96),
    goals=(
        Goal(
            figure="detection_bytes_vs_native_jpeg",
            rival="jpeg, native",
            agreement=0.90,
            target=0.2,
        ),
        Goal(
            figure="detection_bytes_vs_best_codec",
            rival="best of all",
            agreement=0.90,
            target=0.33,
        ),
    ),
)
_IMAGENET: Final = Aims(
    levels=(0.66, 0.70, 0.73, 0.80, 0.85, 0.90),
    goals=(
        Goal(
            figure="classification_bytes_vs_jpeg224",
            rival="jpeg, network size",
            agreement=0.73,
            target=0.4,
        ),
    ),
)
_SMALL: Final = Aims(levels=(0.70, 0.80, 0.90, 0.95, 0.97))
_SOUNDS: Final = Aims(
    levels=(0.75, 0.77, 0.79, 0.80, 0.82, 0.85),
    meaning="agreement where the full model is sure",
)


def aims_of(manifest: Manifest) -> Aims:
    """What a bundle is held to."""
    if isinstance(manifest.task, DetectTask):
        return _DETECTOR
    if isinstance(manifest.preprocess, LogMel):
        return _SOUNDS
    return _IMAGENET if len(manifest.labels) == CLASSES else _SMALL


def fill(
    report: Report,
    manifest: Manifest,
    evaluation: Evaluation,
    *,
    draws: int,
    whole: bool,
    markdown: Path | None,
    plot: Path | None,
) -> None:
    """Write all that was found into `report`, and into files where they are named. Targets are
    judged on `whole` sets only."""
    bootstrap = Bootstrap(evaluation.samples, draws=draws)
    measures = tuple(evaluation.full)
    columns = (*_COLUMNS, *measures)
    rows = [_row(point, bootstrap) for point in evaluation.points]
    full = ", ".join(f"{name} {value:.3f}" for name, value in evaluation.full.items())
    title = f"{evaluation.samples} samples; full model: {full}"
    report.figure("samples", evaluation.samples)
    report.figure("stored_bytes", evaluation.stored_bytes)
    for name, value in evaluation.full.items():
        report.figure(f"full_{_key(name)}", value)
    report.table(title, columns, rows)
    lines = [f"{title}.", "", *_markdown(columns, rows), ""]
    families = evaluation.families()
    kinds = _Kinds.of(families)
    for family in kinds.own:
        lines += _compare(report, manifest, families[family], kinds.rivals, bootstrap, whole=whole)
    if markdown is not None:
        markdown.write_text("\n".join(lines), encoding="utf-8")
    if plot is not None:
        chart.draw(
            evaluation,
            kinds.own,
            plot,
            title=f"{manifest.name}, {evaluation.samples} samples",
            bootstrap=bootstrap,
            measure=measures[0],
            meaning=aims_of(manifest).meaning.format(measures[0]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kinds:
    """The families that are ours, and groups of others to compare them with."""

    own: tuple[str, ...]
    rivals: Mapping[str, Mapping[str, Sequence[Point]]]

    @classmethod
    def of(cls, families: Mapping[str, Sequence[Point]]) -> "_Kinds":
        own = tuple(name for name in families if name.startswith(TRAINED))
        others = {name: points for name, points in families.items() if name not in own}
        groups = {
            "best natural cut": NATURAL,
            "best published block": PUBLISHED,
        }
        rivals = {
            name: {name: points}
            for name, points in others.items()
            if not name.startswith(tuple(groups.values()))
        }
        for title, prefix in groups.items():
            rivals[title] = {
                name: points for name, points in others.items() if name.startswith(prefix)
            }
        return cls(own=own, rivals=rivals | {"best of all": others})


def _compare(
    report: Report,
    manifest: Manifest,
    points: Sequence[Point],
    rivals: Mapping[str, Mapping[str, Sequence[Point]]],
    bootstrap: Bootstrap,
    *,
    whole: bool,
) -> list[str]:
    """Bytes at equal agreement: a table, and for the default cut the targets."""
    aims = aims_of(manifest)
    ratios = {
        name: compare(points, group, aims.levels, bootstrap)
        for name, group in rivals.items()
        if group
    }
    family = points[0].family
    columns = ("rival", *(f"at {level:.2f}" for level in aims.levels))
    rows = [[f"{family}: bytes", *(_bytes(bytes_of(points, level)) for level in aims.levels)]]
    rows += [[name, *map(_ratio, found.values())] for name, found in ratios.items()]
    title = f"{family}: its bytes over the rival's, at equal agreement [95 %]"
    report.table(title, columns, rows)
    if points[0].cut == manifest.default_cut:
        for goal in aims.goals:
            _judge(report, goal, ratios, whole=whole)
    return [f"{title}.", "", *_markdown(columns, rows), ""]


def _judge(
    report: Report, goal: Goal, ratios: Mapping[str, Mapping[float, Ratio]], *, whole: bool
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


def _row(point: Point, bootstrap: Bootstrap) -> list[str]:
    spread = bootstrap.interval(bootstrap.of(point).agreements)
    sizes = sorted(point.sizes.tolist())
    return [
        point.family,
        point.setting,
        f"{point.mean_bytes():,.0f}",
        f"{sizes[int(0.9 * (len(sizes) - 1))]:,}",
        f"{point.agreement():.3f}",
        f"{spread.low:.3f} .. {spread.high:.3f}",
        *(f"{value:.3f}" for value in point.measures().values()),
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
