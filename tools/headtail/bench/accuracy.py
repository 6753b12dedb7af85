"""Accuracy and bytes of a bundle at every cut with every codec, against sending the picture.

Needs a tar of COCO photos, which Headtail does not hold; without it the benchmark is skipped.
"""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import track

from headtail.bench.report import Report
from headtail.data_folder import DATA, in_data
from headtail.provision import ensure_bundle
from headtail_models import plotting, zoo
from headtail_models.bundle import Bundle, open_bundle
from headtail_models.bundle.manifest import Measured, MeasuredPicture
from headtail_models.data.coco_photos import CocoPhotos
from headtail_models.zoo.evaluation import PICTURE, SHRUNK, Evaluation, Evaluator, Variant
from headtail_models.zoo.records import Accuracy, encode

PHOTOS: Final = "coco-photos.tar"
_COLUMNS: Final = ("sent", "codec", "bytes a frame", "mAP50", "drop", "mAP", "agreement")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--bundle", type=Path, metavar="PATH", help="default: yolov3-tiny-coco, built afresh"
    )
    parser.add_argument(
        "--photos",
        type=Path,
        metavar="TAR",
        help=f"default: ${DATA}/{PHOTOS}",
        default=in_data(PHOTOS),
    )
    parser.add_argument("--split", default="val2017", help="default val2017")
    parser.add_argument("--limit", type=int, metavar="N", help="take the first N photos only")
    parser.add_argument("--threads", type=int, default=1, help="for each run (default 1)")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table to FILE")
    parser.add_argument("--plot", type=Path, metavar="PNG", help="draw accuracy against bytes")
    parser.add_argument(
        "--measured", type=Path, metavar="FILE", help="write what the bundle's recipe takes in"
    )


def run(options: argparse.Namespace) -> Report:
    report = Report(
        "accuracy",
        {
            "split": options.split,
            "limit": options.limit,
            "threads": options.threads,
            "detections": "score >= 0.005, best 100 a photo; agreement: the bundle's threshold",
        },
    )
    if options.photos is None:
        report.skip(f"no photo set: name one with --photos, or its folder with {DATA}")
        return report
    if not options.photos.exists():
        report.skip(f"no photo set at {options.photos}")
        return report
    photos = CocoPhotos(options.photos)
    bundle = _bundle(options.bundle)
    report.settings["bundle"] = bundle.name
    evaluation = _evaluate(bundle, photos, options)
    _fill(report, evaluation, whole=options.limit is None)
    if options.markdown is not None:
        options.markdown.write_text(_markdown(evaluation))
    if options.plot is not None:
        _plot(evaluation, options.plot, f"{bundle.name}, {evaluation.photos} photos")
    if options.measured is not None:
        options.measured.write_bytes(encode(_record(bundle, evaluation, options.split)))
    return report


def _bundle(path: Path | None) -> Bundle:
    return open_bundle(path or ensure_bundle(zoo.known()[0]))


def _evaluate(bundle: Bundle, photos: CocoPhotos, options: argparse.Namespace) -> Evaluation:
    evaluator = Evaluator(bundle, threads=options.threads)
    total = len(photos.names(options.split)[: options.limit])
    taken = photos.photos(options.split, limit=options.limit)
    for photo in track(taken, "photos", total, console=Console(stderr=True), transient=True):
        evaluator.add(photo)
    return evaluator.result()


def _fill(report: Report, evaluation: Evaluation, *, whole: bool) -> None:
    report.figure("photos", evaluation.photos)
    report.figure("true_boxes", evaluation.true_boxes)
    report.figure("stored_bytes", evaluation.stored_bytes)
    report.figure("map_full", evaluation.full.map)
    for variant in evaluation.variants:
        name = re.sub(r"\W", "_", f"{variant.place}_{variant.codec}".lower())
        report.figure(f"map50_{name}", variant.precision.map50)
        report.figure(f"agreement_{name}", variant.agreement)
        report.figure(f"bytes_{name}", variant.mean_bytes)
    report.table(
        f"{evaluation.photos} photos, {evaluation.true_boxes} boxes; full model: mAP50 "
        f"{evaluation.full.map50:.4f}, mAP {evaluation.full.map:.4f}",
        _COLUMNS,
        [_row(variant, evaluation) for variant in evaluation.variants],
    )
    report.note(f"the photos' own files: {evaluation.stored_bytes:,.0f} bytes")
    if whole:
        report.target("map50_full", evaluation.full.map50, ">=", 0.42)
    else:
        # A few photos tell nothing of a network.
        report.figure("map50_full", evaluation.full.map50)
    report.target("split_equals_full_max_diff", evaluation.split_difference, "<=", 1e-4)


def _row(variant: Variant, evaluation: Evaluation) -> list[str]:
    drop = round(evaluation.full.map50 - variant.precision.map50, 3) or 0.0  # never -0.000
    return [
        variant.place,
        variant.codec,
        f"{variant.mean_bytes:,.0f}",
        f"{variant.precision.map50:.3f}",
        f"{drop:+.3f}",
        f"{variant.precision.map:.3f}",
        f"{variant.agreement:.3f}",
    ]


def _record(bundle: Bundle, evaluation: Evaluation, split: str) -> Accuracy:
    """What goes into the manifest of the next build."""
    full = evaluation.full.map50
    cuts: dict[str, tuple[Measured, ...]] = {}
    pictures: list[MeasuredPicture] = []
    for variant in evaluation.variants:
        value = round(variant.precision.map50, 4)
        drop = round(full - variant.precision.map50, 4)
        mean_bytes = round(variant.mean_bytes)
        if variant.place == PICTURE:
            codec, quality = variant.codec.split(" ")
            pictures.append(
                MeasuredPicture(
                    codec="jpeg" if codec == "jpeg" else "webp",
                    quality=int(quality),
                    value=value,
                    drop=drop,
                    mean_bytes=mean_bytes,
                )
            )
        elif variant.place != SHRUNK:
            measured = Measured(codec=variant.codec, value=value, drop=drop, mean_bytes=mean_bytes)
            cuts[variant.place] = (*cuts.get(variant.place, ()), measured)
    return Accuracy(
        network=bundle.manifest.name,
        metric="mAP50",
        split=f"{evaluation.photos} photos of COCO {split}",
        full_value=round(full, 4),
        cuts=cuts,
        pictures=tuple(pictures),
    )


def _markdown(evaluation: Evaluation) -> str:
    lines = [f"| {' | '.join(_COLUMNS)} |", f"|{'---|' * 2}{'---:|' * (len(_COLUMNS) - 2)}"]
    lines += [f"| {' | '.join(_row(v, evaluation))} |" for v in evaluation.variants]
    return "\n".join(lines) + "\n"


def _plot(evaluation: Evaluation, path: Path, title: str) -> None:
    pyplot = plotting.pyplot()
    figure, panels = pyplot.subplots(1, 2, figsize=(11, 4.2), sharex=True, layout="constrained")
    measures = (
        ("mAP50", _map50, evaluation.full.map50),
        ("agreement with the full model", _agreement, 1.0),
    )
    for panel, (label, value, full) in zip(panels, measures, strict=True):
        panel.axhline(full, color="grey", linewidth=0.8, linestyle="--", label="full model")
        for series, marker, variants in _series(evaluation):
            points = sorted(variants, key=lambda variant: variant.mean_bytes)
            sizes, values = [v.mean_bytes for v in points], [value(v) for v in points]
            panel.plot(sizes, values, marker, label=series, linewidth=0.8, markersize=5)
            for variant, size, height in zip(points, sizes, values, strict=True):
                panel.annotate(
                    _label(variant),
                    (size, height),
                    xytext=(0, 5),
                    textcoords="offset points",
                    fontsize=7,
                    ha="center",
                )
        panel.set_xscale("log")
        panel.set_xlabel("bytes a frame (mean, log scale)")
        panel.set_ylabel(label)
        panel.grid(visible=True, which="both", alpha=0.25)
    panels[0].legend(fontsize=8)
    figure.suptitle(title, fontsize=10)
    figure.savefig(path, dpi=130, metadata={"Software": None})
    pyplot.close(figure)


def _label(variant: Variant) -> str:
    """What tells a point from the others of its series."""
    if " " in variant.codec:
        return variant.codec.split()[-1]
    return variant.codec.partition("-")[2] if variant.codec.startswith("rans") else variant.place


def _map50(variant: Variant) -> float:
    return variant.precision.map50


def _agreement(variant: Variant) -> float:
    return variant.agreement


def _series(evaluation: Evaluation) -> Iterator[tuple[str, str, list[Variant]]]:
    for codec, marker in (("q8+zstd", "s"), ("q4+zstd", "o")):
        yield f"cut, {codec}", marker, [v for v in evaluation.variants if v.codec == codec]
    coded = [v for v in evaluation.variants if v.codec.partition("-")[0] == "rans"]
    for place, marker in zip(dict.fromkeys(v.place for v in coded), ("D-", "D--"), strict=False):
        yield f"{place}, rans", marker, [v for v in coded if v.place == place]
    for place, codec, marker in (
        (PICTURE, "jpeg", "^-"),
        (PICTURE, "webp", "v"),
        (SHRUNK, "jpeg", "^--"),
        (SHRUNK, "webp", "d"),
    ):
        chosen = [v for v in evaluation.variants if v.place == place and v.codec.startswith(codec)]
        yield f"{place}, {codec}", marker, chosen
