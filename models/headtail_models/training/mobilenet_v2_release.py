"""From trained weights of the classifier's job to the files that the package is released with.

    python -m headtail_models.training.mobilenet_v2_release --data DIR --cache DIR \\
        --trained trained/mobilenetv2-imagenet --out models/headtail_models/zoo/released

Coding models are counted on the photos that were trained on: no accuracy is reported on those.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from torch import nn

from headtail_fabric.errors import HeadtailError
from headtail_models.bundle.manifest import Cut
from headtail_models.data.imagenet_photos import ImagenetPhotos
from headtail_models.nets.mobilenet_v2 import SIDE
from headtail_models.stage import OnnxStage
from headtail_models.training.mobilenet_v2 import LEARNT, MobileNetJob, Network
from headtail_models.training.mobilenet_v2_data import CUT, PHOTOS, prepared
from headtail_models.training.recipe import read_recipe
from headtail_models.training.releasing import write_coder, write_record, write_stage
from headtail_models.training.trainer import read_best
from headtail_models.zoo import mobilenet_v2
from headtail_models.zoo.mobilenet_v2_graph import block_name
from headtail_models.zoo.released import ReleasedCut

STEPS: Final = {
    "rans-fine": 0.7,
    "rans": 1.0,
    "rans-light": 1.4,
    "rans-coarse": 2.0,
    "rans-least": 3.0,
}
"""Quantiser steps by codec id: one set of weights, five rates."""
NAME: Final = "bottleneck"
RECIPE: Final = "mobilenetv2-imagenet"
_LATENTS: Final = "latents"
_STEM: Final = (24, SIDE // 4, SIDE // 4)
_PLACES: Final = SIDE // 16
_COUNTED: Final = 64
"""Photos on which coding models are counted, a second each for all rates."""

Floats = NDArray[np.float32]


class Head(nn.Module):
    """The device's part behind the stem."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self._network = network

    def forward(self, stem: torch.Tensor) -> torch.Tensor:
        return self._network.encode(stem)


class Tail(nn.Module):
    """The server's part before the pretrained blocks go on."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self._network = network

    def forward(self, latents: torch.Tensor) -> torch.Tensor:
        return self._network.restore(latents)


def release(job: MobileNetJob, data: Path, folder: Path, console: Console) -> None:
    """Write encoder, decoder, coding models and their record into `folder`. Raises ExportError."""
    folder.mkdir(parents=True, exist_ok=True)
    network = job.network.eval()
    head = write_stage(
        Head(network),
        folder / f"encoder-{NAME}.onnx",
        _STEM,
        inputs=block_name(CUT),
        output=_LATENTS,
    )
    latents = np.concatenate(list(_latents(job, data, folder / head.file)))
    tail = write_stage(
        Tail(network),
        folder / f"tail-{NAME}.onnx",
        latents.shape[1:],
        inputs=_LATENTS,
        output=block_name(LEARNT),
    )
    coders = {
        codec: write_coder(network.prior, latents, step, folder / f"{codec}.htrc")
        for codec, step in STEPS.items()
    }
    context = network.prior.macs_per_position * _PLACES**2
    cut = Cut(
        name=NAME,
        # The device runs the context model, too.
        head=msgspec.structs.replace(head, macs=head.macs + context),
        tail=tail,
        codecs=tuple(coders),
        coders=coders,
    )
    write_record(ReleasedCut(after=block_name(CUT), before=block_name(LEARNT), cut=cut), folder)
    size = sum(file.stat().st_size for file in folder.iterdir())
    console.print(f"{folder}: {size:,} bytes, the encoder {head.macs / 1e6:.1f} MMAC")


def _latents(job: MobileNetJob, data: Path, encoder: Path) -> "list[Floats]":
    stage = OnnxStage(encoder)
    found = []
    for photo in ImagenetPhotos(data / PHOTOS).photos("train", limit=_COUNTED):
        image = torch.from_numpy(prepared(photo.picture))
        with torch.no_grad():
            stem = dict(job.teacher.walk(image, after=-1, until=CUT))[CUT]
        found.append(stage.run({block_name(CUT): stem.numpy()})[_LATENTS])
    return found


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
        job = MobileNetJob(read_recipe(RECIPE), options.data, options.cache)
        job.network.load_state_dict(read_best(options.trained))
        release(job, options.data, options.out / mobilenet_v2.NAME, console)
    except HeadtailError as error:
        console.print(f"{error}\n{error.advice}", style="red", markup=False)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
