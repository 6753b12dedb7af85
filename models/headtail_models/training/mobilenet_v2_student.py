"""The job `mobilenetv2-student`: the classifier with the block of hnd-ghnd inside, as published.

The block stands for block 3 of the network, the first whose shape it keeps: 24 channels at 56x56.
It is as wide as what it is given, as published, and sends a few channels at 60x60. No labels are
used.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import nn

from headtail_models.bottleneck.hnd_ghnd import hnd_ghnd
from headtail_models.bottleneck.quantise import AffineAtTest
from headtail_models.nets.mobilenet_v2 import SIDE
from headtail_models.training.job import SCORE, Loss
from headtail_models.training.mobilenet_v2_data import CUT, FELT, DataOptions, MobileNetData
from headtail_models.training.recipe import Recipe, StageRecipe
from headtail_models.training.student import (
    Seen,
    Student,
    StudentSettings,
    student_loss,
    student_settings,
)

REPLACED: Final = CUT + 1
"""The block that the bottleneck stands for."""
WIDTH: Final = 24
LATER: Final = {f"features.{number}": f"f{number}" for number in FELT}
"""Layers behind it that are compared, and where the cache has what they give."""


class Options(DataOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`channels` cross, 60x60 places of each, in `bits`."""

    channels: int = 3
    bits: int = 8


class MobileNetStudentJob:
    """The job. Its data are fetched, and its features computed, when it is made."""

    def __init__(self, recipe: Recipe, data: Path, cache: Path) -> None:
        """Raises RecipeError, TrainingDataError, PhotoSetError and the assets' errors."""
        options = recipe.options_as(Options)
        self._settings = StudentSettings(first=1.0)
        source = MobileNetData(options, recipe.seed, data, cache)
        self.teacher = source.teacher
        self._features = source.features()
        self._held_out = list(self._calibrate(source))
        torch.manual_seed(recipe.seed)
        self.network = Student(
            self.teacher,
            replaces=[f"features.{REPLACED}"],
            bottleneck=hnd_ghnd(
                options.channels,
                inputs=WIDTH,
                outputs=WIDTH,
                width=WIDTH,
                wire=AffineAtTest(options.bits),
            ),
            later=tuple(LATER),
            input_shape=(3, SIDE, SIDE),
        )
        # Twice as fast on a CPU.
        self.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def modules(self) -> nn.Module:
        return self.network

    def groups(self) -> dict[str, list[nn.Parameter]]:
        return self.network.groups()

    def begin(self, stage: StageRecipe) -> None:
        self._settings = student_settings(stage)

    def draw(self, random: np.random.Generator, count: int) -> dict[str, torch.Tensor]:
        return self._features.take(random.choice(self._features.count, count, replace=False))

    def loss(self, batch: dict[str, torch.Tensor], progress: float) -> Loss:
        stem = batch["stem"].float().contiguous(memory_format=torch.channels_last)
        mine = self.network.see(stem, to_the_end=self._settings.to_the_end)
        return student_loss(
            mine, self._taught(stem, batch), None, self._settings, first=self.network.first
        )

    def evaluate(self) -> dict[str, float]:
        agreed, sure = [], []
        for stem, best in self._held_out:
            logits = self.network.see(stem, to_the_end=True).logits
            assert logits is not None
            agreed.append(float((logits.argmax(dim=1) == best).float()))
            sure.append(float(logits.softmax(dim=1)[0, best]))
        # The share of the teacher's class is the smoother measure.
        score = (float(np.mean(agreed)) + float(np.mean(sure))) / 2
        return {SCORE: score, "agreement": float(np.mean(agreed)), "sure": float(np.mean(sure))}

    def _taught(self, stem: torch.Tensor, batch: dict[str, torch.Tensor]) -> Seen:
        with torch.no_grad():
            first = self.teacher.block(REPLACED)(stem)
            logits = self.teacher.classifier(batch["pool"].float())
        later = {layer: batch[name] for layer, name in LATER.items()}
        return Seen(features={self.network.first: first, **later}, logits=logits)

    def _calibrate(self, source: MobileNetData) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """The stem's features of each calibration photo, and the teacher's class for it."""
        with torch.no_grad():
            for image in source.calibration():
                stem = dict(self.teacher.walk(image, after=-1, until=CUT))[CUT]
                yield stem, self.teacher.finish(stem, after=CUT).argmax(dim=1)
