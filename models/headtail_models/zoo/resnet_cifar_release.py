"""From a finished training to the released files of `resnet-cifar10`.

    python -m headtail_models.zoo.resnet_cifar_release TRAINING DATA OUT

Exports every stage, chooses temperatures, operating points and coding tables on the calibration
split, and measures what came out on the test split, on which nothing is chosen.
"""

import argparse
import hashlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from torch import nn

from headtail_fabric.errors import HeadtailError
from headtail_fabric.rans import Alphabet, CodingModel, RansCodec, StepLevels
from headtail_fabric.rans.fit_tables import fit
from headtail_models.bottleneck.rounding import HIGHEST, LOWEST
from headtail_models.bundle.manifest import (
    SCHEMA,
    ClassifyTask,
    Coder,
    Cut,
    Exit,
    Manifest,
    Measured,
    OperatingPoint,
    Preprocess,
    Provenance,
    QuantiserTable,
    StageEntry,
    encode_manifest,
)
from headtail_models.data.cifar10 import FILE, MEAN, SIDE, STD, Cifar10, LabelledPictures
from headtail_models.exits.answers import Answers
from headtail_models.exits.cascade import Cascade, CascadeLogits, Piece
from headtail_models.exits.criteria import Criterion
from headtail_models.exits.policy import class_thresholds
from headtail_models.exits.temperature import fit_temperature
from headtail_models.exits.thresholds import AccuracyBudget, Point, Reached, choose
from headtail_models.nets.resnet_cifar import ResNetCifar
from headtail_models.stage import OnnxStage
from headtail_models.training.cifar import CifarJob, normalised
from headtail_models.training.export import halve
from headtail_models.training.folding import folded
from headtail_models.training.recipe import Recipe, read_recipe
from headtail_models.training.releasing import write_stage
from headtail_models.training.trainer import read_best
from headtail_models.zoo.own_bundle import RECORD
from headtail_models.zoo.resnet_cifar import CUT, NAME
from headtail_models.zoo.versions import VERSIONS

DEFAULT_POINT: Final = "drop-1"
DEFAULT_CODEC: Final = "rans"
CRITERION: Final[Criterion] = "entropy"
DROPS: Final = {"drop-2": 0.02, "drop-1": 0.01, "drop-half": 0.005, "drop-0": 0.0}
"""Operating points from the most eager to the least, and the accuracy that each may cost."""
SURENESS: Final = 0.9
"""That a point costs no more than that on other pictures either."""
STEPS: Final = {"rans": 1.0, "rans-coarse": 1.5}
_CHUNK: Final = 500
"""Pictures whose latents are one tensor for the coder's tables."""
_CODED: Final = 500
"""Test pictures whose payloads are made; what an integer code loses needs no payload."""

_PARTS: Final = {
    # stage: tensor in, tensor out
    "trunk0": ("image", "near"),
    "branch0": ("near", "logits0"),
    "trunk1": ("near", "far"),
    "branch1": ("far", "logits1"),
    "head": ("far", CUT),
    "tail": (CUT, "logits"),
    "full": ("image", "logits"),
}

Stages = Mapping[str, StageEntry]


class _Whole(nn.Module):
    """The network without its branches, as it runs where there is nothing to save."""

    def __init__(self, network: ResNetCifar) -> None:
        super().__init__()
        self.network = network

    def forward(self, picture: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.network(picture)
        return logits


def export_stages(network: ResNetCifar, out: Path) -> Stages:
    """Write every stage of a network. Raises ExportError."""
    whole = folded(network)
    halve(whole)
    parts: dict[str, nn.Module] = {
        "trunk0": whole.trunk0,
        "branch0": whole.branch0,
        "trunk1": whole.trunk1,
        "branch1": whole.branch1,
        "head": whole.encoder,
        "tail": whole.tail,
        "full": _Whole(whole),
    }
    shapes = _shapes(whole)
    return {
        name: write_stage(
            parts[name], out / f"{name}.onnx", shapes[taken], inputs=taken, output=given
        )
        for name, (taken, given) in _PARTS.items()
    }


def open_cascade(out: Path) -> Cascade:
    """The exported stages."""
    pieces = {
        name: Piece(OnnxStage(out / f"{name}.onnx"), taken, given)
        for name, (taken, given) in _PARTS.items()
    }
    return Cascade(
        exits=((pieces["trunk0"], pieces["branch0"]), (pieces["trunk1"], pieces["branch1"])),
        head=pieces["head"],
        tail=pieces["tail"],
    )


def exit_costs(stages: Stages) -> tuple[float, float, float]:
    """Multiply-adds of a frame that leaves at each exit, and at the end."""
    macs = {name: stage.macs for name, stage in stages.items()}
    first = macs["trunk0"] + macs["branch0"]
    second = first + macs["trunk1"] + macs["branch1"]
    return first, second, second + macs["head"] + macs["tail"]


def calibrate(logits: CascadeLogits, labels: NDArray[np.int64], stages: Stages) -> tuple[Exit, ...]:
    """The exits, with temperatures and operating points. Raises CalibrationError."""
    temperatures = [fit_temperature(rows, labels) for rows in logits.exits]
    answers = Answers.of(
        logits.exits, logits.end, labels, criterion=CRITERION, temperatures=temperatures
    )
    points = dict(_points(answers, exit_costs(stages)))
    by_class = {name: _by_class(answers, point) for name, point in points.items()}
    return tuple(
        Exit(
            name=f"exit{level}",
            trunk=stages[f"trunk{level}"],
            branch=stages[f"branch{level}"],
            temperature=temperature,
            criterion=CRITERION,
            points=tuple(
                OperatingPoint(
                    name=name,
                    threshold=point.thresholds[level],
                    coverage=round(point.coverage[level], 4),
                    drop=round(point.drops[level], 4),
                    by_class=tuple(by_class[name][level].round(6).tolist()),
                )
                for name, point in points.items()
            ),
            default_point=DEFAULT_POINT,
        )
        for level, temperature in enumerate(temperatures)
    )


def _by_class(answers: Answers, point: Point) -> NDArray[np.float64]:
    """Thresholds (E, K) at which each class leaves as often as all do at `point`."""
    rates = [*point.coverage, max(0.0, 1 - sum(point.coverage))]
    return class_thresholds(answers, rates, classes=int(answers.labels.max()) + 1)


def _points(answers: Answers, costs: Sequence[float]) -> Iterator[tuple[str, Point]]:
    floor: tuple[float, ...] | None = None
    for name, drop in DROPS.items():
        budget = AccuracyBudget(max_drop=drop, sureness=SURENESS)
        outcome = choose(answers, costs, budget, at_least=floor)
        point = outcome.point if isinstance(outcome, Reached) else outcome.nearest
        floor = point.thresholds
        yield name, point


def fit_coders(latents: NDArray[np.float32]) -> dict[str, CodingModel]:
    """Coding models by id, for latents (N, C, H, W)."""
    models = {}
    for codec_id, step in STEPS.items():
        levels = StepLevels(steps=_steps(latents, step), alphabet=_alphabet(latents, step))
        starts = range(0, len(latents), _CHUNK)
        chunks = [levels.levels(latents[start : start + _CHUNK]) for start in starts]
        models[codec_id] = fit(chunks, levels.alphabet)
    return models


def measure(
    cascade: Cascade,
    logits: CascadeLogits,
    labels: NDArray[np.int64],
    models: Mapping[str, CodingModel],
) -> tuple[Measured, ...]:
    """Accuracy and payload of each coder on the test split."""
    found, full = [], _accuracy(logits.end, labels)
    for codec_id, model in models.items():
        levels = StepLevels(steps=_steps(logits.tensors, STEPS[codec_id]), alphabet=model.alphabet)
        codec = RansCodec(levels, model)
        sizes = [len(codec.encode(one[np.newaxis])) for one in logits.tensors[:_CODED]]
        restored = levels.values(levels.levels(logits.tensors))
        right = _accuracy(cascade.tail.run(restored), labels)
        found.append(
            Measured(
                codec=codec_id,
                value=round(right, 4),
                drop=round(full - right, 4),
                mean_bytes=round(float(np.mean(sizes)), 1),
            )
        )
    return tuple(found)


def release(recipe: Recipe, training: Path, data: Path, out: Path, *, cache: Path) -> Manifest:
    """Write the released files into `out`, from the folder that a training by `recipe` wrote.

    Raises HeadtailError.
    """
    job = CifarJob(recipe, data, cache)
    job.network.load_state_dict(read_best(training))
    out.mkdir(parents=True, exist_ok=True)
    stages = export_stages(job.network, out)
    cascade = open_cascade(out)
    pictures = Cifar10(data / FILE, cache=cache)
    held, test = pictures.split("calibration"), pictures.split("test")
    on_held, on_test = (cascade.logits(_inputs(split)) for split in (held, test))
    models = fit_coders(on_held.tensors)
    for codec_id, model in models.items():
        (out / f"{codec_id}.htrc").write_bytes(model.to_bytes())
    cut = Cut(
        name=CUT,
        gates=calibrate(on_held, held.labels, stages),
        head=stages["head"],
        tail=stages["tail"],
        codecs=(*STEPS, "q8+zstd", "raw"),
        quantisers={"q8": _table(on_held.tensors)},
        coders={
            codec_id: Coder(file=f"{codec_id}.htrc", steps=(step,))
            for codec_id, step in STEPS.items()
        },
        measured=measure(cascade, on_test, test.labels, models),
    )
    manifest = Manifest(
        schema=SCHEMA,
        name=NAME,
        version=VERSIONS[NAME],
        description="A residual network for the ten classes of CIFAR-10, with two early exits",
        task=ClassifyTask(output="logits"),
        labels=pictures.classes,
        preprocess=Preprocess(
            kind="centre-crop", width=SIDE, height=SIDE, resize=SIDE, mean=MEAN, std=STD
        ),
        full=stages["full"],
        cuts=(cut,),
        default_cut=CUT,
        default_codec=DEFAULT_CODEC,
        metric="top-1",
        metric_split=f"{len(test)} pictures of CIFAR-10 test",
        full_value=round(_accuracy(on_test.end, test.labels), 4),
        provenance=(
            Provenance(
                source="trained on CIFAR-10 (Krizhevsky, 2009) by the recipe resnet-cifar10",
                licence="Apache-2.0",
                sha256=hashlib.sha256((out / stages["full"].file).read_bytes()).hexdigest(),
            ),
        ),
        files=(),
    )
    (out / RECORD).write_bytes(encode_manifest(manifest))
    return manifest


def _shapes(network: ResNetCifar) -> dict[str, tuple[int, ...]]:
    with torch.no_grad():
        image = torch.zeros(1, 3, SIDE, SIDE)
        near = network.trunk0(image)
        far = network.trunk1(near)
        latents = network.encoder(far)
    tensors = {"image": image, "near": near, "far": far, CUT: latents}
    return {name: tuple(tensor.shape[1:]) for name, tensor in tensors.items()}


def _inputs(split: LabelledPictures) -> NDArray[np.float32]:
    return np.ascontiguousarray(normalised(split.pictures).numpy())


def _alphabet(latents: NDArray[np.float32], step: float) -> Alphabet:
    low = max(LOWEST, int(np.floor(latents.min() / step)))
    high = min(HIGHEST, int(np.ceil(latents.max() / step)))
    return Alphabet(low=low, count=high - low + 1)


def _steps(latents: NDArray[np.float32], step: float) -> NDArray[np.float32]:
    return np.full(latents.shape[1], step, dtype=np.float32)


def _table(latents: NDArray[np.float32]) -> QuantiserTable:
    lowest, highest = (end(latents, axis=(0, 2, 3)).astype(np.float64) for end in (np.min, np.max))
    # Outwards to hundredths, so that people can read them.
    low, high = np.floor(lowest * 100) / 100, np.ceil(highest * 100) / 100
    return QuantiserTable(low=tuple(low.tolist()), high=tuple(high.tolist()))


def _accuracy(logits: NDArray[np.float32], labels: NDArray[np.int64]) -> float:
    return float((logits.argmax(axis=1) == labels).mean())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m headtail_models.zoo.resnet_cifar_release")
    parser.add_argument("training", type=Path, help="folder that headtail train wrote")
    parser.add_argument("data", type=Path, help=f"folder that holds {FILE}")
    parser.add_argument("out", type=Path, help="folder for the released files")
    parser.add_argument("--recipe", default=NAME, help=f"that was trained by; default {NAME}")
    parser.add_argument("--cache", type=Path, required=True, help="folder for decoded pictures")
    options = parser.parse_args(arguments)
    console = Console(stderr=True)
    try:
        manifest = release(
            read_recipe(options.recipe),
            options.training,
            options.data,
            options.out,
            cache=options.cache,
        )
    except HeadtailError as error:
        console.print(f"[red]{error.message}[/red]\n{error.advice}")
        return 1
    console.print(f"top-1 {manifest.full_value}, {manifest.cuts[0].measured}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
