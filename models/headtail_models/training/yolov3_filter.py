"""The job `yolov3-tiny-filter`: is there any person or vehicle, as far as the detector can see?

A branch on the frozen trunk, with what the teacher is sure to see as label: no labels of photos
are used. (The neural filter of Matsubara and Levorato, "Neural compression and filtering for
edge-assisted real-time object detection in challenged networks", ICPR 2020, on another network.)
"""

from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import torch
from torch import nn
from torch.nn import functional

from headtail_models.bottleneck.presence import PresenceBranch
from headtail_models.training.job import SCORE, Loss
from headtail_models.training.recipe import Recipe, StageRecipe
from headtail_models.training.settings import settings_as
from headtail_models.training.yolov3_data import MAPS, TRUNK, DataOptions, YoloData, data_options

CLASSES: Final = (0, 1, 2, 3, 5, 6, 7, 8)
"""COCO's person, bicycle, car, motorbike, bus, train, truck and boat."""
SURE: Final = 0.25
_CALIBRATION_SHARE: Final = 8
"""Every eighth picture's crops choose the checkpoint."""


class Options(DataOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the branch is."""

    width: int = 32


class NoSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Stages of this job change nothing."""


class FilterJob:
    """The job. Its data are fetched, and its features computed, when it is made."""

    def __init__(self, recipe: Recipe, data: Path, cache: Path) -> None:
        """Raises RecipeError and the errors of YoloData."""
        options = recipe.options_as(Options)
        self.data = YoloData(data_options(options), recipe.seed, data, cache)
        self._labels = self._label()
        count = self.data.features.count
        # Crops of one picture lie together: whole runs of them are kept apart.
        runs = np.arange(count) // options.crops_coco
        self._train = np.flatnonzero(runs % _CALIBRATION_SHARE != 0)
        self._calibration = np.flatnonzero(runs % _CALIBRATION_SHARE == 0)
        torch.manual_seed(recipe.seed)
        width = self.data.teacher.layer(TRUNK + 1).in_channels
        self.network = PresenceBranch(width, width=options.width)

    def modules(self) -> nn.Module:
        return self.network

    def groups(self) -> dict[str, list[nn.Parameter]]:
        return {"branch": list(self.network.parameters())}

    def begin(self, stage: StageRecipe) -> None:
        settings_as(stage, NoSettings)

    def draw(self, random: np.random.Generator, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self._take(random.choice(self._train, count, replace=False))

    def loss(self, batch: tuple[torch.Tensor, torch.Tensor], progress: float) -> Loss:
        trunk, certain = batch
        labels = (certain >= SURE).long()
        return Loss(total=functional.cross_entropy(self.network(trunk).float(), labels))

    def evaluate(self) -> dict[str, float]:
        margins, labels = [], []
        for first in range(0, len(self._calibration), 64):
            trunk, wanted = self._take(self._calibration[first : first + 64])
            logits = self.network(trunk).float()
            margins.append((logits[:, 1] - logits[:, 0]).numpy())
            labels.append(wanted.numpy() >= SURE)
        values, truth = np.concatenate(margins), np.concatenate(labels)
        return {SCORE: ranking(values, truth), "share": float(truth.mean())}

    def _take(self, numbers: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        order = np.sort(numbers)
        trunk = self.data.features.take(order)["trunk"].float()
        return trunk, self._labels[torch.from_numpy(order)]

    def _label(self) -> torch.Tensor:
        found = []
        for first in range(0, self.data.features.count, 128):
            last = min(first + 128, self.data.features.count)
            batch = self.data.features.take(range(first, last))
            seen = [certainty(batch[f"l{index}"].float(), self.data.classes) for index in MAPS]
            found.append(torch.stack(seen).amax(dim=0))
        return torch.cat(found)


def certainty(maps: torch.Tensor, classes: int) -> torch.Tensor:
    """The highest score (N,) of any class that the filter asks for, in raw maps (N, ..., H, W)."""
    cells = maps.reshape(maps.shape[0], -1, 5 + classes, *maps.shape[2:]).sigmoid()
    scores = cells[:, :, 4:5] * cells[:, :, [5 + index for index in CLASSES]]
    return scores.flatten(1).amax(dim=1)


def ranking(values: np.ndarray, truth: np.ndarray) -> float:
    """The share of pairs that `values` put in the right order (area under the ROC curve)."""
    order = np.argsort(np.argsort(values, kind="stable"), kind="stable") + 1
    positive, negative = int(truth.sum()), int((~truth).sum())
    if not positive or not negative:
        return 0.5
    return float((order[truth].sum() - positive * (positive + 1) / 2) / (positive * negative))
