"""An R-CNN distilled on photos of COCO: the loss falls, on photos that it does not learn from too.

The teacher has random weights, whose activations would die out or explode; its normalisations are
calibrated on the photos, so that each layer says something about them, as a trained one's does.
"""

import os
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import torch
from torch import nn

from headtail_models.data.coco_photos import CocoPhotos

pytest.importorskip(
    "torchvision", reason="needs torchvision: pip install 'headtail[rcnn]'", exc_type=ImportError
)

from headtail_models.bottleneck.hnd_ghnd import hnd_ghnd
from headtail_models.bottleneck.losses import hnd
from headtail_models.rcnn.coco import CocoPicture
from headtail_models.rcnn.detector import backbone, injected, untrained
from headtail_models.rcnn.ghnd_job import GhndJob
from headtail_models.training.recipe import StageRecipe

pytestmark = pytest.mark.system

PHOTOS = "coco-photos.tar"
STEPS = 24


def _pictures(split: str, count: int, folder: Path) -> list[CocoPicture]:
    data = os.environ.get("HEADTAIL_DATA")
    if data is None or not (Path(data) / PHOTOS).exists():
        pytest.skip(f"needs {PHOTOS}: name its folder with HEADTAIL_DATA")
    found = []
    for number, photo in enumerate(CocoPhotos(Path(data) / PHOTOS).photos(split, limit=count)):
        path = folder / f"{split}-{number}.png"
        cv2.imwrite(str(path), photo.picture)
        height, width = photo.picture.shape[:2]
        found.append(
            CocoPicture(number=number, path=path, height=height, width=width, boxes=photo.boxes)
        )
    return found


def _calibrated(pictures: list[CocoPicture]) -> Any:
    """A Faster R-CNN whose normalisations have the statistics of the photos."""
    torch.manual_seed(1)
    teacher = untrained("faster", min_size=112, max_size=176, num_classes=91)
    layers = [one for one in teacher.backbone.modules() if isinstance(one, nn.BatchNorm2d)]
    for layer in layers:
        layer.momentum = None  # the plain mean over all that is seen
    teacher.backbone.train()
    with torch.no_grad():
        for picture in pictures:
            images, _ = teacher.transform([picture.read()])
            backbone(teacher)(images.tensors)
    return teacher.eval()


def _errors(job: GhndJob, pictures: list[CocoPicture]) -> dict[str, float]:
    """Relative, layer by layer, with the batch's own statistics: after so few steps the running
    ones are still those of weights long gone."""
    with torch.no_grad():
        images, _ = job._transform([picture.read() for picture in pictures])
        wanted, found = job._teacher(images.tensors), job._body(images.tensors)
    return {
        name: float(hnd(found[name], tensor) / tensor.square().sum())
        for name, tensor in wanted.items()
    }


def test_ghnd_learns_from_coco_photos(tmp_path: Path) -> None:
    torch.set_num_threads(1)
    seen = _pictures("train2017", 24, tmp_path)
    unseen = _pictures("val2017", 4, tmp_path)
    teacher = _calibrated(seen[:8])
    student = injected(teacher, hnd_ghnd(3))
    job = GhndJob(teacher, student, pictures=seen, calibration=unseen)
    job.begin(StageRecipe(name="s", steps=STEPS, batch=2, rate=1e-3))
    parameters = [one.requires_grad_() for group in job.groups().values() for one in group]
    optimiser = torch.optim.Adam(parameters, lr=1e-3)
    random = np.random.default_rng(0)
    job.modules().train()
    before = _errors(job, unseen)
    errors = []
    for _ in range(STEPS):
        loss = job.loss(job.draw(random, 2), 0.0)
        optimiser.zero_grad()
        loss.total.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        # Relative, as batches differ in size.
        errors.append([loss.parts[f"error {name}"] for name in before])
    after = _errors(job, unseen)

    # A calibrated teacher's layers are alive: there is something to learn in each.
    assert set(before) == {"0", "1", "2", "3"}
    assert all(0.1 < error < 100 for error in before.values())
    first, last = np.mean(errors[:4], axis=0), np.mean(errors[-4:], axis=0)
    assert all(last < first)
    assert all(after[name] < before[name] for name in before)
    assert after["0"] < 0.95 * before["0"]
