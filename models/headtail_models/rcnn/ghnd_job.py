"""Distils an R-CNN's layer1 into a bottleneck: generalised head network distillation.

Layer0 and the bottleneck learn, all else is the teacher's and frozen; no labels are used. Only the
backbones run. (Matsubara and Levorato, ICPR 2020, section III.)
"""

import copy
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torchvision.models.detection.generalized_rcnn import GeneralizedRCNN

from headtail_models.bottleneck.losses import ghnd, hnd
from headtail_models.rcnn.coco import CocoPicture, Drawing
from headtail_models.rcnn.detector import REPLACED, STEM, backbone, block_of, feature_names
from headtail_models.rcnn.split import Detections
from headtail_models.training.errors import RecipeError
from headtail_models.training.job import SCORE, Loss
from headtail_models.training.recipe import StageRecipe
from headtail_models.vision.average_precision import Precision, mean_average_precision


class GhndJob:
    """Groups: `layer0`, `encoder`, `decoder`. The score is the student's box mAP on the calibration
    pictures. Setting `generalised`: 0 distils layer1 alone (HND), 1 all four layers (the default).
    """

    def __init__(
        self,
        teacher: GeneralizedRCNN,
        student: GeneralizedRCNN,
        *,
        pictures: Sequence[CocoPicture],
        calibration: Sequence[CocoPicture],
        device: str = "cpu",
    ) -> None:
        self._device = device
        self._teacher = backbone(teacher.to(device).eval().requires_grad_(False))
        self._student = student.to(device).eval().requires_grad_(False)
        self._body = backbone(student)
        self._first = feature_names(student)[REPLACED]
        # As in training: where a detector resizes at random, one size is drawn for both.
        self._transform = copy.deepcopy(teacher.transform).train()
        self._drawing = Drawing(pictures)
        self._calibration = calibration
        self._generalised = True
        self._learning = trained_parts(student)

    def modules(self) -> nn.Module:
        return self._learning

    def groups(self) -> dict[str, list[nn.Parameter]]:
        block = block_of(self._student)
        return {
            "layer0": [p for name in STEM for p in self._body[name].parameters()],
            "encoder": list(block.encoder.parameters()),
            "decoder": list(block.decoder.parameters()),
        }

    def begin(self, stage: StageRecipe) -> None:
        unknown = set(stage.settings) - {"generalised"}
        if unknown:
            raise RecipeError(f"stage {stage.name!r} has the unknown settings {sorted(unknown)}")
        self._generalised = bool(stage.settings.get("generalised", 1.0))

    def draw(self, random: np.random.Generator, count: int) -> list[Tensor]:
        return self._drawing.draw(random, count)[1]

    def loss(self, batch: list[Tensor], progress: float) -> Loss:
        images, _ = self._transform([picture.to(self._device) for picture in batch])
        with torch.no_grad():
            wanted: dict[str, Tensor] = self._teacher(images.tensors)
        found: dict[str, Tensor] = self._body(images.tensors)
        total = ghnd(found, wanted) if self._generalised else self._hnd(found, wanted)
        with torch.no_grad():
            parts = {
                f"error {name}": float(hnd(found[name], wanted[name]) / wanted[name].square().sum())
                for name in wanted
            }
        return Loss(total=total, parts=parts)

    def evaluate(self) -> dict[str, float]:
        found = box_precision(self._student, self._calibration, device=self._device)
        return {SCORE: found.map, "map": found.map, "map50": found.map50}

    def _hnd(self, found: dict[str, Tensor], wanted: dict[str, Tensor]) -> Tensor:
        return hnd(found[self._first], wanted[self._first])


def trained_parts(student: GeneralizedRCNN) -> nn.ModuleDict:
    """What is trained, and all that a checkpoint holds: layer0 and the bottleneck."""
    body = backbone(student)
    return nn.ModuleDict({**{name: body[name] for name in STEM}, "block": block_of(student)})


def box_precision(
    detector: nn.Module, pictures: Sequence[CocoPicture], *, device: str = "cpu"
) -> Precision:
    """Of a detector, or a split one, over the categories that the pictures show."""
    found = []
    with torch.no_grad():
        for picture in pictures:
            (detections,) = detector([picture.read().to(device)])
            found.append(rows_of(detections))
    return mean_average_precision(found, [picture.boxes for picture in pictures])


def rows_of(detections: Detections) -> NDArray[np.float32]:
    """(n, 6) x1, y1, x2, y2, score, category."""
    columns = [detections["boxes"], detections["scores"][:, None], detections["labels"][:, None]]
    rows: NDArray[np.float32] = torch.cat([one.float().cpu() for one in columns], dim=1).numpy()
    return rows
