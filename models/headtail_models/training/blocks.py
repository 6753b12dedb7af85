"""The published blocks that the classifier's bottleneck is compared with, trained and exported.

folder/hnd-ghnd-3/           checkpoints and curves, as `headtail train` writes them
                   head.onnx  tail.onnx
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import torch

from headtail_models.nets.mobilenet_v2 import SIDE
from headtail_models.training import history
from headtail_models.training.export import export
from headtail_models.training.mobilenet_v2_student import MobileNetStudentJob
from headtail_models.training.recipe import Recipe, read_recipe
from headtail_models.training.trainer import Progress, read_best, train

RECIPE: Final = "mobilenetv2-hnd-ghnd"
CHANNELS: Final = (3, 6, 12)
"""Of the published blocks, those that are compared."""
CROSSING: Final = "latents"
_HEAD: Final = "head.onnx"
_TAIL: Final = "tail.onnx"


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockFiles:
    """A trained block: its name, and the stages on both sides of what crosses."""

    name: str
    head: Path
    tail: Path


def block_files(folder: Path, channels: int) -> BlockFiles:
    """Where they lie, or will lie."""
    name = f"hnd-ghnd-{channels}"
    return BlockFiles(name=name, head=folder / name / _HEAD, tail=folder / name / _TAIL)


def block_recipe(channels: int) -> Recipe:
    """The released recipe with another number of channels."""
    recipe = read_recipe(RECIPE)
    return msgspec.structs.replace(recipe, options=recipe.options | {"channels": channels})


def make_block(
    folder: Path,
    channels: int,
    *,
    data: Path,
    cache: Path,
    progress: Callable[[Progress], None] = lambda _: None,
) -> BlockFiles:
    """Train a block and export it, unless its files are there; goes on where it was stopped.

    Raises TrainingDataError, PhotoSetError, OtherRecipeError, CheckpointError, ExportError and the
    assets' errors.
    """
    files = block_files(folder, channels)
    if files.head.exists() and files.tail.exists():
        return files
    recipe = block_recipe(channels)
    job = MobileNetStudentJob(recipe, data, cache)
    train(job, recipe, files.head.parent, progress=progress)
    history.draw(files.head.parent)
    job.network.load_state_dict(read_best(files.head.parent))
    split = job.network.split.eval()
    export(
        split.tail,
        files.tail,
        shape=_crossing(split.head),
        inputs=CROSSING,
        outputs=("logits",),
    )
    export(split.head, files.head, shape=(3, SIDE, SIDE), inputs="image", outputs=(CROSSING,))
    return files


def _crossing(head: torch.nn.Module) -> tuple[int, ...]:
    with torch.no_grad():
        return tuple(head(torch.zeros(1, 3, SIDE, SIDE)).shape[1:])
