"""The job `resnet-cifar10-student`: the CIFAR-10 network with the block of hnd-ghnd inside.

The block stands for the residual block of the first stage, 24 channels at 16x16, and sends a few
channels at 10x10. The teacher is a network that `headtail train resnet-cifar10` has trained; labels
are plenty here, so what the papers compare can be compared: HND, GHND, plain training, two stages.
"""

from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import nn

from headtail_models.bottleneck.hnd_ghnd import hnd_ghnd
from headtail_models.bottleneck.quantise import AffineAtTest
from headtail_models.data.cifar10 import SIDE
from headtail_models.training.cifar import Batch, CifarData, batches
from headtail_models.training.cifar import Options as NetworkOptions
from headtail_models.training.errors import TrainingDataError
from headtail_models.training.job import SCORE, Loss
from headtail_models.training.recipe import Recipe, StageRecipe
from headtail_models.training.student import (
    Seen,
    Student,
    StudentSettings,
    student_loss,
    student_settings,
    watched,
)
from headtail_models.training.trainer import read_best

REPLACED: Final = "trunk0.1.1"
LATER: Final = ("trunk1", "tail.0", "tail.1")


class Options(NetworkOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`teacher`: the folder of its training, whose options are those here; `channels` cross, at
    1/`stride` of the block's resolution, in `bits`."""

    teacher: str
    channels: int = 3
    stride: int = 2
    bits: int = 8


class CifarStudentJob:
    """The job. Its data are decoded when it is made."""

    def __init__(self, recipe: Recipe, data: Path, cache: Path) -> None:
        """Raises RecipeError, CheckpointError, TrainingDataError, Cifar10Error,
        Cifar10CacheError."""
        options = recipe.options_as(Options)
        self._data = CifarData(data, cache, shift=options.shift)
        self._settings = StudentSettings(first=1.0)
        self._teacher = options.network(self._data.classes)
        try:
            self._teacher.load_state_dict(read_best(Path(options.teacher)))
        except RuntimeError as error:
            raise TrainingDataError(f"the teacher's weights have other shapes: {error}") from None
        self._teacher.eval().requires_grad_(False)
        torch.manual_seed(recipe.seed)
        width = options.widths[0]
        self.network = Student(
            self._teacher,
            replaces=[REPLACED],
            bottleneck=hnd_ghnd(
                options.channels,
                inputs=width,
                outputs=width,
                width=width,
                stride=options.stride,
                wire=AffineAtTest(options.bits),
            ),
            later=LATER,
            input_shape=(3, SIDE, SIDE),
        )

    def modules(self) -> nn.Module:
        return self.network

    def groups(self) -> dict[str, list[nn.Parameter]]:
        return self.network.groups()

    def begin(self, stage: StageRecipe) -> None:
        self._settings = student_settings(stage)

    def draw(self, random: np.random.Generator, count: int) -> Batch:
        return self._data.draw(random, count)

    def loss(self, batch: Batch, progress: float) -> Loss:
        pictures, labels = batch
        entering = self.network.split.before(pictures)
        mine = self.network.see(entering, to_the_end=self._settings.to_the_end)
        return student_loss(
            mine, self._taught(pictures), labels, self._settings, first=self.network.first
        )

    def evaluate(self) -> dict[str, float]:
        right, agreed = 0, 0
        for pictures, labels in batches(self._data.calibration):
            best = self.network.split(pictures).argmax(dim=1)
            right += int((best == labels).sum())
            agreed += int((best == self._teacher(pictures).argmax(dim=1)).sum())
        count = len(self._data.calibration)
        return {SCORE: right / count, "agreement": agreed / count}

    def _taught(self, pictures: torch.Tensor) -> Seen:
        names = (REPLACED, *LATER)
        with torch.no_grad(), watched(self._teacher, names) as features:
            logits = self._teacher(pictures)
        return Seen(features=features, logits=logits)
