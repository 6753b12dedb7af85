"""From trained modules to the files of a released part: what every job's release writes."""

from pathlib import Path
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray
from torch import nn

from headtail_fabric.rans import Alphabet, StepLevels, fit_tables
from headtail_models.bottleneck.cost import cost
from headtail_models.bottleneck.prior import Prior
from headtail_models.bottleneck.rounding import HIGHEST, LOWEST
from headtail_models.bundle.manifest import Coder, StageEntry
from headtail_models.stage import OnnxStage
from headtail_models.tensor import TensorSpec
from headtail_models.training.export import export
from headtail_models.zoo.released import ReleasedCut

ALPHABET: Final = Alphabet(low=LOWEST, count=HIGHEST - LOWEST + 1)
"""What a latent of every bottleneck here may become."""
_QUICK_TILES: Final = (2, 2)

Floats = NDArray[np.float32]


def write_stage(
    module: nn.Module, path: Path, shape: tuple[int, ...], *, inputs: str, output: str
) -> StageEntry:
    """Export `module`, whose one input is (N, *shape). Raises ExportError."""
    export(module, path, shape=shape, inputs=inputs, outputs=(output,))
    return StageEntry(
        file=path.name,
        inputs=(TensorSpec(name=inputs, dtype="float32", shape=shape),),
        outputs=(OnnxStage(path).outputs[0],),
        macs=cost(module, 1, *shape).macs,
    )


def step_levels(channels: int, step: float) -> StepLevels:
    """The quantiser of latents at one step for all channels."""
    return StepLevels(steps=np.full(channels, step, dtype=np.float32), alphabet=ALPHABET)


def write_coder(prior: Prior, latents: Floats, step: float, path: Path) -> Coder:
    """The coding model of a prior at one step, counted on `latents` (N, C, H, W)."""
    levels = step_levels(prior.channels, step).levels(latents)
    model = prior.coding_model(levels, ALPHABET, step=step, tiles=(1, 1))
    path.write_bytes(model.to_bytes())
    return Coder(file=path.name, steps=(step,))


def write_quick_coder(latents: Floats, step: float, path: Path) -> Coder:
    """A coding model that needs no prior, fitted to `latents` (N, C, H, W): a table context in
    tiles. A quarter more bytes for a third less time to write and half the time to read."""
    levels = step_levels(latents.shape[1], step).levels(latents)
    path.write_bytes(fit_tables.fit(list(levels), ALPHABET, tiles=_QUICK_TILES).to_bytes())
    return Coder(file=path.name, steps=(step,))


def write_record(part: ReleasedCut, folder: Path) -> None:
    """What `zoo.released` reads, beside the files that it names."""
    text = msgspec.json.format(msgspec.json.encode(part), indent=1) + b"\n"
    _record(folder, part.cut.name).write_bytes(text)


def read_record(folder: Path, cut: str) -> ReleasedCut:
    """What was released of a cut before. Raises OSError, msgspec.DecodeError."""
    return msgspec.json.decode(_record(folder, cut).read_bytes(), type=ReleasedCut)


def _record(folder: Path, cut: str) -> Path:
    return folder / f"{cut}.json"
