"""The job `motion`: what somebody does, on a microcontroller, and its tail for the edge."""

from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from headtail_models.assets import fetch
from headtail_models.nets.motion import motion_net
from headtail_models.training.board_split import BoardSplitJob, Labelled, NetworkOptions
from headtail_models.training.motion_data import (
    ASSET,
    FILE,
    LABELS,
    Windows,
    read_recordings,
    scaled,
    windows,
)
from headtail_models.training.recipe import Recipe

_NOISE: Final = 0.02


class Options(NetworkOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the network is. `exit_blocks`: separable blocks of the exit; with none it is a mean and
    a dense layer. `tilt`: how far the sensor is turned at random, in degrees; `gain`: how much
    stronger or weaker it is."""

    width: int = 32
    exit_blocks: int = 0
    code: int = 4
    dropout: float = 0.3
    tilt: float = 12.0
    gain: float = 0.1


class MotionJob(BoardSplitJob):
    """18 persons to train on, six to choose on; six are left for measuring."""

    def __init__(self, recipe: Recipe, data: Path, cache: Path) -> None:
        """Raises RecipeError, TrainingDataError and the assets' errors."""
        options = recipe.options_as(Options)
        recordings = read_recordings(recordings_file(data))
        self._train = windows(recordings, "train")
        self._options = options
        network = options.network(
            motion_net, recipe.seed, classes=len(LABELS), exit_blocks=options.exit_blocks
        )
        super().__init__(network, labelled(windows(recordings, "calibration")))

    def take(self, random: np.random.Generator, count: int) -> Labelled:
        chosen = random.choice(self._train.labels.size, count, replace=False)
        readings = scaled(self._train.samples[chosen])
        turns = _turns(random.normal(0, np.radians(self._options.tilt), (count, 3)))
        # Acceleration and turning are vectors of the same frame.
        vectors = readings.reshape(count, -1, 2, 3)
        turned = np.einsum("nij,ntkj->ntki", turns, vectors).reshape(readings.shape)
        turned *= 1 + random.normal(0, self._options.gain, (count, 1, 1, 1))
        turned += random.normal(0, _NOISE, turned.shape)
        return Labelled(
            inputs=torch.from_numpy(turned.astype(np.float32)),
            labels=torch.from_numpy(self._train.labels[chosen]),
        )


def recordings_file(data: Path) -> Path:
    """The one in the folder `data`, or else the asset. Raises the assets' errors."""
    own = data / FILE
    return own if own.exists() else fetch(ASSET)[FILE]


def labelled(found: Windows) -> Labelled:
    """As the network takes them."""
    return Labelled(
        inputs=torch.from_numpy(scaled(found.samples)), labels=torch.from_numpy(found.labels)
    )


def _turns(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rotations (n, 3, 3) about `vectors` (n, 3) by their lengths (Rodrigues' formula)."""
    angle = np.linalg.norm(vectors, axis=1)[:, np.newaxis, np.newaxis]
    x, y, z = (vectors / np.maximum(angle[:, 0], 1e-12)).T
    zero = np.zeros_like(x)
    cross = np.stack([zero, -z, y, z, zero, -x, -y, x, zero], axis=1).reshape(-1, 3, 3)
    turns: NDArray[np.float64] = (
        np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * (cross @ cross)
    )
    return turns
