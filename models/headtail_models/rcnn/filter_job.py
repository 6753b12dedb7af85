"""Trains the neural filter on what layer0 of a distilled student gives; the student is frozen.

(Matsubara and Levorato, ICPR 2020, section IV.)
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import torch
from torch import Tensor, nn
from torchvision.models.detection.generalized_rcnn import GeneralizedRCNN

from headtail_models.bottleneck.losses import cross_entropy
from headtail_models.rcnn.coco import CocoPicture, Drawing
from headtail_models.rcnn.neural_filter import (
    NeuralFilter,
    area_under_curve,
    threshold_for_recall,
)
from headtail_models.rcnn.split import RcnnHead
from headtail_models.training.errors import RecipeError
from headtail_models.training.job import SCORE, Loss
from headtail_models.training.recipe import StageRecipe

_RECALL: Final = 0.9

Labelled = tuple[list[Tensor], Tensor]


class FilterJob:
    """`people`: numbers of the pictures with something. Group: `filter`. The score is the area
    under the ROC curve on the calibration pictures; `threshold` lets `recall` (a setting, 0.9) of
    those with something pass, and `stopped` is the share of the others that it stops."""

    def __init__(
        self,
        student: GeneralizedRCNN,
        neural_filter: NeuralFilter,
        *,
        pictures: Sequence[CocoPicture],
        calibration: Sequence[CocoPicture],
        people: frozenset[int],
        device: str = "cpu",
    ) -> None:
        self._device = device
        head = RcnnHead(student.to(device).requires_grad_(False))
        self._transform, self._stem = head.transform, head.stem
        self._filter = neural_filter.to(device)
        self._drawing = Drawing(pictures)
        self._calibration = calibration
        self._people = people
        self._recall = _RECALL

    def modules(self) -> nn.Module:
        return self._filter

    def groups(self) -> dict[str, list[nn.Parameter]]:
        return {"filter": list(self._filter.parameters())}

    def begin(self, stage: StageRecipe) -> None:
        unknown = set(stage.settings) - {"recall"}
        if unknown:
            raise RecipeError(f"stage {stage.name!r} has the unknown settings {sorted(unknown)}")
        self._recall = stage.settings.get("recall", _RECALL)

    def draw(self, random: np.random.Generator, count: int) -> Labelled:
        chosen, pictures = self._drawing.draw(random, count)
        return pictures, torch.tensor([one.number in self._people for one in chosen]).long()

    def loss(self, batch: Labelled, progress: float) -> Loss:
        pictures, labels = batch
        with torch.no_grad():
            features = self._features(pictures)
        return Loss(total=cross_entropy(self._filter(features), labels.to(self._device)))

    def evaluate(self) -> dict[str, float]:
        scores = np.array(
            [
                float(self._filter.something(self._features([picture.read()])))
                for picture in self._calibration
            ]
        )
        something = np.array([one.number in self._people for one in self._calibration])
        threshold = threshold_for_recall(scores, something, self._recall)
        empty = scores[~something]
        return {
            SCORE: area_under_curve(scores, something),
            "threshold": threshold,
            "stopped": float((empty < threshold).mean()) if empty.size else 0.0,
        }

    def _features(self, pictures: Sequence[Tensor]) -> Tensor:
        images, _ = self._transform([picture.to(self._device) for picture in pictures])
        features: Tensor = self._stem(images.tensors)
        return features
