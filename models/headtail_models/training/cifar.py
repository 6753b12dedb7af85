"""Trains the CIFAR-10 network: trunk, exits and bottleneck together.

The loss is the weighted sum of the exits' (Teerapittayanon et al., "BranchyNet", ICPR 2016, eq. 2)
and of the bits that cross.
"""

from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from headtail_models.data.cifar10 import FILE, MEAN, SIDE, STD, Cifar10, LabelledPictures
from headtail_models.nets.resnet_cifar import ResNetCifar, gaussian_bits
from headtail_models.training.job import SCORE, Loss
from headtail_models.training.recipe import Recipe, StageRecipe
from headtail_models.training.settings import settings_as

_BATCH: Final = 250

Batch = tuple[torch.Tensor, torch.Tensor]


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the network is, and how far pictures are moved at random, in pixels."""

    stem: int = 16
    widths: tuple[int, int, int] = (24, 48, 128)
    latents: int = 24
    branch: int = 48
    shift: int = 2

    def network(self, classes: int) -> ResNetCifar:
        """With random weights."""
        return ResNetCifar(
            classes=classes,
            stem=self.stem,
            widths=self.widths,
            latents=self.latents,
            branch=self.branch,
        )


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a stage may change: weights of the exits and of a bit, and label smoothing."""

    exit0: float = 0.3
    exit1: float = 0.3
    bit: float = 1e-4
    smoothing: float = 0.1


class CifarData:
    """What every job for CIFAR-10 learns from. The pictures are decoded into `cache` when it is
    made, if they are not there."""

    def __init__(self, data: Path, cache: Path, *, shift: int) -> None:
        """Raises Cifar10Error, Cifar10CacheError."""
        torch.set_num_threads(1)
        pictures = Cifar10(data / FILE, cache=cache)
        train = pictures.split("train")
        self._shift = shift
        edge = (shift, shift)
        self._padded = np.pad(train.pictures, ((0, 0), edge, edge, (0, 0)), mode="reflect")
        self._labels = train.labels
        self.classes = len(pictures.classes)
        self.calibration = pictures.split("calibration")

    def draw(self, random: np.random.Generator, count: int) -> Batch:
        """Pictures moved and mirrored at random, and their labels."""
        chosen = random.integers(0, self._labels.size, count)
        places = random.integers(0, 2 * self._shift + 1, (count, 2))
        crops = np.empty((count, SIDE, SIDE, 3), dtype=np.uint8)
        for crop, number, (top, left) in zip(crops, chosen, places, strict=True):
            crop[:] = self._padded[number, top : top + SIDE, left : left + SIDE]
        flipped = random.random(count) < 0.5
        crops[flipped] = crops[flipped, :, ::-1]
        return normalised(crops), torch.from_numpy(self._labels[chosen])


class CifarJob:
    """The job. Its data are decoded when it is made."""

    def __init__(self, recipe: Recipe, data: Path, cache: Path) -> None:
        """Raises RecipeError, Cifar10Error, Cifar10CacheError."""
        options = recipe.options_as(Options)
        self._data = CifarData(data, cache, shift=options.shift)
        self._settings = Settings()
        torch.manual_seed(recipe.seed)
        self.network = options.network(self._data.classes)

    def modules(self) -> nn.Module:
        return self.network

    def groups(self) -> dict[str, list[nn.Parameter]]:
        network = self.network
        return {
            "trunk": [*network.trunk0.parameters(), *network.trunk1.parameters()],
            "branches": [*network.branch0.parameters(), *network.branch1.parameters()],
            "bottleneck": list(network.encoder.parameters()),
            "tail": list(network.tail.parameters()),
        }

    def begin(self, stage: StageRecipe) -> None:
        self._settings = settings_as(stage, Settings)

    def draw(self, random: np.random.Generator, count: int) -> Batch:
        return self._data.draw(random, count)

    def loss(self, batch: Batch, progress: float) -> Loss:
        pictures, labels = batch
        settings = self._settings
        *answers, latents = self.network.answers(pictures)
        first, second, last = (
            functional.cross_entropy(logits, labels, label_smoothing=settings.smoothing)
            for logits in answers
        )
        bits = gaussian_bits(latents)
        total = last + settings.exit0 * first + settings.exit1 * second + settings.bit * bits
        parts = {"exit0": first, "exit1": second, "last": last, "bits": bits}
        return Loss(total=total, parts={name: float(part.detach()) for name, part in parts.items()})

    def evaluate(self) -> dict[str, float]:
        right = np.zeros(3)
        bits = []
        for pictures, labels in batches(self._data.calibration):
            *answers, latents = self.network.answers(pictures)
            right += [float((logits.argmax(1) == labels).sum()) for logits in answers]
            bits.append(float(gaussian_bits(latents)))
        exit0, exit1, last = right / len(self._data.calibration)
        weights = np.array([self._settings.exit0, self._settings.exit1, 1.0])
        score = float(weights @ (exit0, exit1, last) / weights.sum())
        return {
            SCORE: score,
            "exit0": float(exit0),
            "exit1": float(exit1),
            "last": float(last),
            "bits": float(np.mean(bits)),
        }


def normalised(pictures: NDArray[np.uint8]) -> torch.Tensor:
    """Pictures (N, 32, 32, 3) BGR as the network's input (N, 3, 32, 32).

    Channels lie last in memory, and stay so: a CPU trains a quarter faster.
    """
    values = pictures[..., ::-1].astype(np.float32)
    values *= np.float32(1 / 255)
    values -= np.array(MEAN, dtype=np.float32)
    values /= np.array(STD, dtype=np.float32)
    return torch.from_numpy(values).permute(0, 3, 1, 2)


def batches(pictures: LabelledPictures) -> list[Batch]:
    """All of them, in order."""
    starts = range(0, len(pictures), _BATCH)
    return [
        (
            normalised(pictures.pictures[start : start + _BATCH]),
            torch.tensor(pictures.labels[start : start + _BATCH]),
        )
        for start in starts
    ]
