"""The job `board-int8`: a head for a board learns on with the board's rounding in it.

It begins at the weights of another recipe's training, its normalisations folded as the exporter
folds them, and at the ranges that calibration finds; what it is judged by is the rounded head.
"""

from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import torch
from torch import nn

from headtail_models.mcu.ranges import Quantiser
from headtail_models.nets.board_split import BoardSplit, sent
from headtail_models.training.board_split import Batch, BoardSplitJob, judged, summed
from headtail_models.training.errors import CheckpointError, RecipeError, TrainingDataError
from headtail_models.training.fake_quantised import FakeQuantised
from headtail_models.training.folding import folded_split
from headtail_models.training.job import Loss
from headtail_models.training.jobs import open_job
from headtail_models.training.recipe import Recipe, StageRecipe, read_recipe
from headtail_models.training.settings import settings_as
from headtail_models.training.trainer import read_best

JOB: Final = "board-int8"
_PARTS: Final = ("trunk", "branch", "encoder")
_CALIBRATION: Final = 256
"""Training samples that the first ranges are found on."""


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`recipe`: whose network and data these are; `trained`: the folder of its training."""

    recipe: str
    trained: str


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a stage may change: the weights of the answers in the loss, and label smoothing."""

    exit: float = 1.0
    tail: float = 1.0
    smoothing: float = 0.1


class RoundedSplit(nn.Module):
    """A `BoardSplit` whose parts on the board round; its code does when it is sent."""

    def __init__(self, whole: BoardSplit, samples: torch.Tensor) -> None:
        """`whole` is folded; ranges are found on `samples` (N, ...) of its input."""
        super().__init__()
        self.board = FakeQuantised.calibrated(OnBoard(whole), samples.numpy(), bits=(8, None))
        self.tail = whole.tail

    def answers(self, x: torch.Tensor, bits: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits of the exit and of the tail behind a code of `bits` bits a value."""
        early, code = self.board(x)
        return early, self.tail(sent(code, bits))


class OnBoard(nn.Module):
    """What of a `BoardSplit` a board computes: logits and code."""

    def __init__(self, whole: BoardSplit) -> None:
        super().__init__()
        self.trunk, self.branch, self.encoder = whole.trunk, whole.branch, whole.encoder

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        near = self.trunk(x)
        return self.branch(near), self.encoder(near)


class BoardInt8Job:
    """Draws and is judged as the job of the recipe that it goes on from."""

    def __init__(self, recipe: Recipe, data: Path, cache: Path) -> None:
        """Raises RecipeError, CheckpointError, TrainingDataError and the errors of that job."""
        options = recipe.options_as(Options)
        base = base_of(recipe)
        job = open_job(base, data, cache.with_name(base.name))
        if not isinstance(job, BoardSplitJob):
            raise RecipeError(f"recipe {recipe.name}: {options.recipe} trains no head for boards")
        try:
            job.network.load_state_dict(read_best(Path(options.trained)))
        except RuntimeError as error:
            raise TrainingDataError(f"{options.trained} holds other shapes: {error}") from None
        self._job = job
        self._settings = Settings()
        torch.manual_seed(recipe.seed)
        drawn = job.take(np.random.default_rng(recipe.seed), _CALIBRATION)
        self.network = RoundedSplit(folded_split(job.network), drawn.inputs)

    def modules(self) -> nn.Module:
        return self.network

    def groups(self) -> dict[str, list[nn.Parameter]]:
        board = self.network.board
        parts = {name: list(board.head.get_submodule(name).parameters()) for name in _PARTS}
        return {
            **parts,
            "steps": list(board.levels.parameters()),
            "tail": list(self.network.tail.parameters()),
        }

    def begin(self, stage: StageRecipe) -> None:
        self._settings = settings_as(stage, Settings)

    def draw(self, random: np.random.Generator, count: int) -> Batch:
        return self._job.draw(random, count)

    def loss(self, batch: Batch, progress: float) -> Loss:
        early, last = self.network.answers(batch.samples.inputs, batch.bits)
        settings = self._settings
        answers = (("exit", settings.exit, early), ("tail", settings.tail, last))
        return summed(answers, batch.samples.labels, smoothing=settings.smoothing)

    def evaluate(self) -> dict[str, float]:
        return judged(self.network.answers, self._job.calibration)


def base_of(recipe: Recipe) -> Recipe:
    """The recipe whose network and data a recipe of this job goes on with. Raises RecipeError."""
    return read_recipe(recipe.options_as(Options).recipe)


def settled_split(
    network: BoardSplit, sample: torch.Tensor, weights: dict[str, torch.Tensor]
) -> tuple[BoardSplit, tuple[Quantiser, ...]]:
    """What a training of this job leaves, `weights`, as a plain network of the kind of `network`.

    It rounds to the same levels by the ranges beside it: of the input and of what each layer
    leaves, in the exporter's order. `sample` (1, ...) is any input. Raises CheckpointError.
    """
    whole = folded_split(network)
    rounded = RoundedSplit(whole, sample)
    try:
        rounded.load_state_dict(weights)
    except RuntimeError as error:
        raise CheckpointError(f"weights of another network: {error}") from None
    rounded.board.settle()
    tail = {f"tail.{name}": value for name, value in rounded.tail.state_dict().items()}
    whole.load_state_dict({**rounded.board.head.state_dict(), **tail})
    return whole, tuple(rounded.board.quantisers().values())
