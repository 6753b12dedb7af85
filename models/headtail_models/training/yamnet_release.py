"""From trained weights of YAMNet's job to the files that the package is released with.

    python -m headtail_models.training.yamnet_release --data DIR --cache DIR \\
        --trained trained/yamnet-audio --out models/headtail_models/zoo/released

Coding models are counted on made-up scenes that were trained on; the exit's thresholds and the
choice between the two kinds of context are found on the calibration split.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from torch import nn

from headtail_fabric.errors import HeadtailError
from headtail_fabric.rans import CodingModel, LevelCoder
from headtail_fabric.rans.conv_context import ConvContext
from headtail_fabric.rans.fit_tables import fit
from headtail_models.bundle.manifest import Coder, Cut, Exit, OperatingPoint
from headtail_models.exits.criteria import Criterion, confidence
from headtail_models.exits.thresholds import CLOSED
from headtail_models.nets.yamnet_bottleneck import YamnetBottleneck
from headtail_models.stage import OnnxStage
from headtail_models.training.recipe import read_recipe
from headtail_models.training.releasing import (
    ALPHABET,
    step_levels,
    write_record,
    write_stage,
)
from headtail_models.training.trainer import read_best
from headtail_models.training.yamnet import GO_ON, YamnetJob
from headtail_models.zoo.released import ReleasedCut
from headtail_models.zoo.yamnet_graph import layer_name
from headtail_models.zoo.yamnet_layers import JOIN, TRUNK, shape

BUNDLE: Final = "yamnet-audio"
NAME: Final = "bottleneck"
STEPS: Final = {"rans-fine": 0.5, "rans": 1.0, "rans-coarse": 2.0, "rans-least": 3.5}
"""Quantiser steps by codec id: one set of weights, many rates."""
CRITERION: Final[Criterion] = "max-probability"
DROPS: Final = {"drop-2": 0.02, "drop-1": 0.01}
"""Operating points: the share of those that leave whose best tag may be another one."""
_COUNTED: Final = 2400
"""Patches that coding models are counted on."""
_TOGETHER: Final = 100
"""Patches that are one tensor for the coder."""
_LATENTS: Final = "latents"
_FATE: Final = "fate"

Floats = NDArray[np.float32]
Levels = NDArray[np.int16]


class Tail(nn.Module):
    """The server's part before the published layers go on."""

    def __init__(self, network: YamnetBottleneck) -> None:
        super().__init__()
        self._network = network

    def forward(self, latents: torch.Tensor) -> torch.Tensor:
        return self._network.restore(latents)


def release(job: YamnetJob, folder: Path, console: Console) -> None:
    """Write exit, encoder, decoder, coding models and their record into `folder`.

    Raises ExportError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    network = job.network.bottleneck.eval()
    crossing = (network.prior.channels, *shape(JOIN)[1:])
    features, restored = layer_name(TRUNK), layer_name(JOIN)
    head = write_stage(
        network.encoder, folder / "encoder.onnx", shape(TRUNK), inputs=features, output=_LATENTS
    )
    tail = write_stage(
        Tail(network), folder / "tail-bottleneck.onnx", crossing, inputs=_LATENTS, output=restored
    )
    branch = write_stage(
        job.network.exit.eval(), folder / "exit.onnx", shape(TRUNK), inputs=features, output=_FATE
    )
    counted = _run(folder / head.file, job.cache.take(range(_COUNTED))["trunk"])
    chosen_on = _run(folder / head.file, job.calibration.trunk)
    models = {name: _best_model(network, counted, chosen_on, step) for name, step in STEPS.items()}
    for name, model in models.items():
        (folder / f"{name}.htrc").write_bytes(model.to_bytes())
    points = exit_points(
        _run(folder / branch.file, job.calibration.trunk), job.best_fates(job.calibration.logits)
    )
    cut = Cut(
        name=NAME,
        gates=(
            Exit(
                name="silence-or-speech",
                branch=branch,
                criterion=CRITERION,
                classes=job.exit_classes,
                goes_on=True,
                points=points,
                default_point=points[-1].name,
            ),
        ),
        head=msgspec.structs.replace(head, macs=head.macs + _context_macs(network, models)),
        tail=tail,
        codecs=tuple(models),
        coders={name: Coder(file=f"{name}.htrc", steps=(step,)) for name, step in STEPS.items()},
    )
    write_record(ReleasedCut(after=features, before=restored, cut=cut), folder)
    size = sum(file.stat().st_size for file in folder.iterdir())
    console.print(f"{folder}: {size:,} bytes; {', '.join(map(str, points))}")


def exit_points(logits: Floats, fates: NDArray[np.int64]) -> tuple[OperatingPoint, ...]:
    """For each of `DROPS` the lowest threshold at which no more of those that leave are wrong.

    `logits` (N, 3), `fates` (N,) what the whole network says.
    """
    found = logits.argmax(axis=1)
    sure = confidence(logits, criterion=CRITERION, temperature=1.0)
    order = np.argsort(-np.where(found == GO_ON, -1, sure), kind="stable")
    order = order[: int((found != GO_ON).sum())]
    wrong = (found != fates)[order].cumsum() / np.arange(1, order.size + 1)
    points = []
    for name, drop in DROPS.items():
        fitting = np.flatnonzero(wrong <= drop)
        count = int(fitting[-1]) + 1 if fitting.size else 0
        points.append(
            OperatingPoint(
                name=name,
                threshold=float(sure[order[count - 1]]) if count else CLOSED,
                coverage=round(count / found.size, 4),
                drop=round(float(wrong[count - 1]), 4) if count else 0.0,
            )
        )
    return tuple(points)


def _best_model(
    network: YamnetBottleneck, counted: Floats, chosen_on: Floats, step: float
) -> CodingModel:
    """Of a context of tables and the trained convolution, the one that takes fewer bytes."""
    quantiser = step_levels(network.prior.channels, step)
    seen, unseen = quantiser.levels(counted), quantiser.levels(chosen_on)
    models = (
        fit(np.array_split(seen, len(seen) // _TOGETHER), ALPHABET),
        network.prior.coding_model(seen[:_TOGETHER], ALPHABET, step=step, tiles=(1, 1)),
    )
    return min(models, key=lambda model: _bytes(model, unseen))


def _context_macs(network: YamnetBottleneck, models: Mapping[str, CodingModel]) -> int:
    """Of the costliest coder: the device runs its context, too."""
    if not any(isinstance(model.context, ConvContext) for model in models.values()):
        return 0
    _, rows, columns = shape(JOIN)
    return network.prior.macs_per_position * rows * columns


def _bytes(model: CodingModel, levels: Levels) -> int:
    coder = LevelCoder(model)
    return sum(len(coder.encode(one[np.newaxis])) for one in levels)


def _run(path: Path, given: torch.Tensor) -> Floats:
    stage = OnnxStage(path)
    (source,), (target,) = stage.inputs, stage.outputs
    parts = [
        stage.run({source.name: some.float().contiguous().numpy()})[target.name]
        for some in torch.split(given, 32)
    ]
    return np.concatenate(parts)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, metavar="DIR")
    parser.add_argument("--cache", type=Path, required=True, metavar="DIR", help="of the features")
    parser.add_argument("--trained", type=Path, required=True, metavar="DIR")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    options = parser.parse_args(arguments)
    console = Console()
    try:
        job = YamnetJob(read_recipe(BUNDLE), options.data, options.cache)
        job.network.load_state_dict(read_best(options.trained))
        release(job, options.out / BUNDLE, console)
    except HeadtailError as error:
        console.print(f"{error}\n{error.advice}", style="red", markup=False)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
