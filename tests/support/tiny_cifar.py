"""A set of pictures in the layout of CIFAR-10 that a network learns in seconds, and its recipe."""

from pathlib import Path

import cv2
import numpy as np

from headtail_models.data.cifar10 import FILE, SIDE
from headtail_models.training.recipe import Recipe, parse_recipe
from photo_tar import write_tar

CLASSES = ("blue", "green", "grey", "red")
_COLOURS = {"blue": (200, 40, 40), "green": (40, 200, 40), "grey": (90,) * 3, "red": (40, 40, 200)}
_RECIPE = """
name = "tiny"
job = "resnet-cifar10"
seed = 3
[options]
stem = 8
widths = [8, 8, 8]
latents = 4
branch = 8
shift = 1
[[stage]]
name = "all"
steps = 60
batch = 16
optimiser = "sgd"
rate = 0.05
warmup = 3
evaluate_every = 30
settings = { bit = 1e-3 }
"""


def recipe() -> Recipe:
    """Of a network of 5,000 parameters."""
    return parse_recipe(_RECIPE, name="tiny")


def write_pictures(folder: Path, *, train: int = 20, test: int = 10) -> Path:
    """So many pictures of each class; the path of the tar file."""
    random = np.random.default_rng(8)
    files = {}
    for split, count in (("train", train), ("test", test)):
        for name in CLASSES:
            for number in range(count):
                noise = random.normal(scale=60, size=(SIDE, SIDE, 3))
                picture = np.clip(np.array(_COLOURS[name]) + noise, 0, 255).astype(np.uint8)
                data = cv2.imencode(".jpg", picture)[1].tobytes()
                files[f"{split}/{name}/{number:04}.jpg"] = data
    return write_tar(folder / FILE, files)
