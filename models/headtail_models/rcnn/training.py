"""The commands of `headtail_models.rcnn.train`: what to train on, with what, and where it goes."""

import argparse
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import msgspec
import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from torch import nn
from torchvision.models.detection.generalized_rcnn import GeneralizedRCNN

from headtail_models.bottleneck.hnd_ghnd import hnd_ghnd
from headtail_models.bottleneck.quantise import AffineAtTest
from headtail_models.rcnn.coco import CocoPicture, read_people, read_split
from headtail_models.rcnn.detector import Variant, injected, pretrained
from headtail_models.rcnn.errors import CocoFolderError, RcnnError
from headtail_models.rcnn.filter_job import FilterJob
from headtail_models.rcnn.ghnd_job import GhndJob, trained_parts
from headtail_models.rcnn.neural_filter import NeuralFilter
from headtail_models.rcnn.report import Row, measure
from headtail_models.rcnn.split import SplitRcnn
from headtail_models.training import trainer
from headtail_models.training.errors import CheckpointError, RecipeError
from headtail_models.training.job import Job
from headtail_models.training.recipe import Recipe, parse_recipe, read_recipe

_PERSON: Final = 1
_FILTER: Final = "filter"
_RECIPES: Final[dict[str, str]] = {
    "faster": "ghnd.toml",
    "mask": "ghnd.toml",
    "keypoint": "ghnd-keypoint.toml",
    _FILTER: "filter.toml",
}


def distil(chosen: argparse.Namespace, console: Console) -> None:
    """Layer1 into a bottleneck. Raises HeadtailError."""
    recipe = _recipe(chosen.variant, chosen.recipe)
    device = _device(chosen.device)
    training, calibration = _pictures(chosen.coco, chosen.variant, chosen.calibration)
    teacher = pretrained(chosen.variant)
    torch.manual_seed(recipe.seed)
    student = injected(teacher, hnd_ghnd(chosen.channels))
    job = GhndJob(teacher, student, pictures=training, calibration=calibration, device=device)
    _train(job, recipe, chosen.out, console)


def train_filter(chosen: argparse.Namespace, console: Console) -> None:
    """On the Keypoint R-CNN that was distilled into the same folder. Raises HeadtailError."""
    recipe = _recipe(_FILTER, chosen.recipe)
    device = _device(chosen.device)
    training, calibration = _apart(read_split(chosen.coco, "train2017"), chosen.calibration)
    people = read_people(chosen.coco, "train2017")
    student = _distilled("keypoint", chosen.out, chosen.channels)
    torch.manual_seed(recipe.seed)
    job = FilterJob(
        student,
        NeuralFilter(),
        pictures=training,
        calibration=calibration,
        people=people,
        device=device,
    )
    _train(job, recipe, chosen.out / _FILTER, console)


def report(chosen: argparse.Namespace, console: Console) -> None:
    """Box mAP and bytes of the whole detector, the split one, and the split one at few bits.

    Raises HeadtailError.
    """
    device = _device(chosen.device)
    pictures = _shown(read_split(chosen.coco, "val2017"), chosen.variant)[: chosen.limit]
    whole = pretrained(chosen.variant)
    rows = [measure("whole", whole, pictures, device=device)]
    student = _distilled(chosen.variant, chosen.out, chosen.channels)
    rows.append(measure("split, 32 bits", SplitRcnn(student), pictures, bits=32, device=device))
    student = _distilled(chosen.variant, chosen.out, chosen.channels, bits=chosen.bits)
    name = f"split, {chosen.bits} bits"
    rows.append(measure(name, SplitRcnn(student), pictures, bits=chosen.bits, device=device))
    if (chosen.out / _FILTER / trainer.BEST).exists():
        neural_filter = NeuralFilter()
        scores = _load(chosen.out / _FILTER, neural_filter)
        split = SplitRcnn(
            student, neural_filter=neural_filter, threshold=float(scores["threshold"])
        )
        name = f"{name}, filtered"
        rows.append(measure(name, split, pictures, bits=chosen.bits, device=device))
    console.print(_table(rows, len(pictures)))


class _NoOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What differs between these trainings is on the command line."""


def _recipe(kind: str, file: Path | None) -> Recipe:
    name = _RECIPES[kind]
    text = files(__package__).joinpath("recipes", name).read_text("utf-8")
    built_in = parse_recipe(text, name=name)
    if file is None:
        return built_in
    recipe = read_recipe(str(file))
    recipe.options_as(_NoOptions)
    if recipe.job != built_in.job:
        raise RecipeError(f"{file} is for the job {recipe.job!r}, not {built_in.job!r}")
    return recipe


def _device(name: str) -> str:
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        raise RcnnError(f"device {name}: {str(error).splitlines()[0]}") from error
    return name


def _pictures(
    folder: Path, variant: Variant, calibration: int
) -> tuple[Sequence[CocoPicture], Sequence[CocoPicture]]:
    return _apart(_shown(read_split(folder, "train2017"), variant), calibration)


def _shown(pictures: Sequence[CocoPicture], variant: Variant) -> Sequence[CocoPicture]:
    """Those that show what the detector knows; Keypoint R-CNN knows people alone."""
    if variant != "keypoint":
        return [one for one in pictures if len(one.boxes)]
    return [one.only(_PERSON) for one in pictures if one.shows(_PERSON)]


def _apart(
    pictures: Sequence[CocoPicture], calibration: int
) -> tuple[Sequence[CocoPicture], Sequence[CocoPicture]]:
    """The last ones choose the checkpoint; the reported split is never looked at for that."""
    if len(pictures) <= calibration:
        raise CocoFolderError(
            f"train2017 has {len(pictures)} such pictures; {calibration} are for calibration alone"
        )
    return pictures[:-calibration], pictures[-calibration:]


def _distilled(
    variant: Variant, folder: Path, channels: int, *, bits: int | None = None
) -> GeneralizedRCNN:
    wire = None if bits is None else AffineAtTest(bits)
    student = injected(pretrained(variant), hnd_ghnd(channels, wire=wire))
    _load(folder, trained_parts(student))
    return student.eval()


def _load(folder: Path, modules: nn.Module) -> dict[str, float]:
    """The best weights of a training into `modules`; what they scored. Raises CheckpointError."""
    path = folder / trainer.BEST
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        modules.load_state_dict(state["network"])
    except (OSError, RuntimeError, KeyError) as error:
        raise CheckpointError(f"{path}: {str(error).splitlines()[0]}") from error
    scores: dict[str, float] = state["scores"]
    return scores


def _train(job: Job, recipe: Recipe, folder: Path, console: Console) -> None:
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
    )
    with bar:
        task = bar.add_task(recipe.name, total=recipe.steps)

        def show(progress: trainer.Progress) -> None:
            score = progress.scores.get("score", 0.0)
            text = f"{progress.stage}: loss {progress.loss:.4g}, score {score:.4f}"
            bar.update(task, completed=progress.step, description=text)

        outcome = trainer.train(job, recipe, folder, progress=show)
    best = ", ".join(f"{name} {value:.4f}" for name, value in outcome.best.items())
    console.print(f"best of {outcome.steps} steps, at {outcome.best_step}: {best}")


def _table(rows: Sequence[Row], pictures: int) -> Table:
    table = Table(title=f"{pictures} pictures of val2017")
    for heading in ("detector", "box mAP", "mAP50", "bytes a picture", "sent"):
        table.add_column(heading, justify="left" if heading == "detector" else "right")
    for row in rows:
        table.add_row(
            row.name,
            f"{row.precision.map:.3f}",
            f"{row.precision.map50:.3f}",
            f"{row.bytes_a_picture:,.0f}",
            f"{row.sent:.1%}",
        )
    return table
