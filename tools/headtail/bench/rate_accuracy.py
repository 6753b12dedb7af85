"""Accuracy against payload bytes: a bundle's cuts beside codecs of the picture, or the sound.

Rivals send the picture at its own size, as the network sees it, or shrunk and enlarged again on
the server, in JPEG, WebP and AVIF; a sound goes as its samples, in FLAC and in Opus. With --blocks,
the classifier's published blocks are trained into a folder, and measured beside its own cut. Needs
photos or sounds, which Headtail does not hold; without them the benchmark is skipped. What was
measured stays in the cache, so that a second run takes seconds.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import Progress

from headtail.bench.report import Report
from headtail.data_folder import DATA, in_data
from headtail.provision import ensure_bundle
from headtail.rates.blocks import block_crossings
from headtail.rates.tables import fill
from headtail_fabric.config import cache_home
from headtail_models.bundle import Bundle, open_bundle
from headtail_models.bundle.manifest import LogMel, Manifest, Measured
from headtail_models.entrance import entrance_for, pictures_of
from headtail_models.rate import codecs, sounds
from headtail_models.rate.block import block_methods
from headtail_models.rate.cut import Crossing, cut_methods, natural_crossings, natural_methods
from headtail_models.rate.errors import RateError
from headtail_models.rate.evaluation import Evaluation, Evaluator
from headtail_models.rate.fitted import fitted_method
from headtail_models.rate.method import Method, Whole, whole_network
from headtail_models.rate.picture import picture_methods
from headtail_models.rate.samples import SampleSet, file_for, open_samples
from headtail_models.rate.sounds import sound_methods, soundfile, spectra_methods
from headtail_models.rate.store import Store
from headtail_models.rate.view import Viewer
from headtail_models.zoo.records import Accuracy, encode

_BUNDLE: Final = "yolov3-tiny-coco"
_FITTING: Final = 60
"""Calibration samples that tables for natural cuts and blocks are fitted on."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--bundle", default=_BUNDLE, help=f"a bundle's path or name (default {_BUNDLE})"
    )
    parser.add_argument(
        "--photos",
        type=Path,
        metavar="PATH",
        help=f"a tar of photos, or the folder of the sounds; default: of ${DATA}",
    )
    parser.add_argument("--cut", action="append", metavar="NAME", help="this cut only; repeatable")
    parser.add_argument(
        "--blocks",
        type=Path,
        metavar="DIR",
        help="published blocks (b = 3, 6, 12) too, for mobilenetv2-imagenet; trained into DIR "
        "where they are not there yet, in minutes each",
    )
    parser.add_argument(
        "--limit", type=_count, metavar="N", help="take N samples only; targets are not judged"
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
    bundle = open_bundle(ensure_bundle(options.bundle))
    photos = options.photos or in_data(file_for(bundle.manifest))
    if photos is None or not photos.exists():
        report.skip(
            f"no photo set at {photos}"
            if photos
            else f"no photo set: name one with --photos, or its folder with {DATA}"
        )
        return report
    cache = cache_home() / "features" / bundle.name
    samples = open_samples(bundle.manifest, photos, cache)
    evaluation = _evaluate(report, bundle, samples, options)
    report.settings |= {
        "bundle": bundle.name,
        "samples": f"{evaluation.samples} of {samples.described}",
        "codecs": _versions(bundle.manifest),
    }
    fill(
        report,
        bundle.manifest,
        evaluation,
        draws=options.draws,
        whole=options.limit is None,
        markdown=options.markdown,
        plot=options.plot,
    )
    if options.measured is not None:
        options.measured.write_bytes(encode(_record(bundle.manifest, evaluation, samples)))
    return report


def _evaluate(
    report: Report, bundle: Bundle, samples: SampleSet, options: argparse.Namespace
) -> Evaluation:
    whole = whole_network(bundle.open_stage(bundle.full(), threads=options.threads))
    evaluator = Evaluator(bundle, samples.report(options.limit), whole)
    crossings = list(natural_crossings(bundle, cuts=options.cut, threads=options.threads))
    methods: list[Method] = [
        *cut_methods(bundle, cuts=options.cut, threads=options.threads),
        *natural_methods(bundle, crossings),
        *_fitted(bundle, crossings, samples),
        *_blocks(bundle, samples, options),
    ]
    if isinstance(bundle.manifest.preprocess, LogMel):
        methods += _sounds(report, bundle, samples, whole)
    else:
        viewer = Viewer(pictures_of(bundle.manifest))
        kinds = options.codec or codecs.available()
        methods += picture_methods(viewer, whole, kinds=kinds)
    store = Store(cache_home() / "rate-accuracy", fresh=options.fresh)
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("methods", total=len(methods))
        return evaluator.evaluate(
            methods,
            store,
            versions=_versions(bundle.manifest),
            progress=lambda done: bar.update(task, completed=done),
        )


def _versions(manifest: Manifest) -> dict[str, str]:
    """Of the codecs that rivals use."""
    return sounds.versions() if isinstance(manifest.preprocess, LogMel) else codecs.versions()


def _fitted(bundle: Bundle, crossings: Sequence[Crossing], samples: SampleSet) -> list[Method]:
    if not crossings:
        return []
    method = fitted_method(bundle, crossings, samples.calibration(_FITTING))
    return [] if method is None else [method]


def _blocks(bundle: Bundle, samples: SampleSet, options: argparse.Namespace) -> list[Method]:
    if options.blocks is None:
        return []
    crossings = list(block_crossings(bundle, options.blocks, threads=options.threads))
    return list(block_methods(crossings, samples.calibration(_FITTING)))


def _sounds(report: Report, bundle: Bundle, samples: SampleSet, whole: Whole) -> Iterator[Method]:
    entrance = entrance_for(bundle.manifest)
    yield from spectra_methods(entrance, whole, samples.calibration(_FITTING))
    try:
        soundfile()
    except RateError as missing:
        report.note(f"{missing.message}: pip install soundfile")
        yield from sound_methods(entrance, whole, kinds=())
    else:
        yield from sound_methods(entrance, whole, kinds=("opus", "flac"))


def _record(manifest: Manifest, evaluation: Evaluation, samples: SampleSet) -> Accuracy:
    """What goes into the manifest of the next build."""
    metric, full = next(iter(evaluation.full.items()))
    cuts: dict[str, tuple[Measured, ...]] = {}
    for point in evaluation.points:
        cut = manifest.cut(point.cut)
        if cut is None or point.codec not in cut.codecs:
            continue
        value = point.measures()[metric]
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
        pictures=manifest.pictures,
    )


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError(text)
    return value
