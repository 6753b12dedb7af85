"""What the trainer trains: the seam between the loop and a network with its data."""

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn

from headtail_models.training.recipe import StageRecipe

SCORE = "score"
"""The measure that a checkpoint is chosen by: larger is better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """What is minimised, and its parts as they go into the log."""

    total: torch.Tensor
    parts: dict[str, float] = field(default_factory=dict)


class Job(Protocol):
    """A network, its data and its loss."""

    def modules(self) -> nn.Module:
        """All that a checkpoint holds."""
        ...

    def groups(self) -> dict[str, list[nn.Parameter]]:
        """What may be trained, by the names that a recipe uses; no parameter twice."""
        ...

    def begin(self, stage: StageRecipe) -> None:
        """A stage begins, or goes on after a restart. Raises RecipeError for unknown settings."""
        ...

    def draw(self, random: np.random.Generator, count: int) -> Any:
        """A batch of `count` training samples, handed to `loss` as it is."""
        ...

    def loss(self, batch: Any, progress: float) -> Loss:
        """Of one batch; `progress` through the stage goes from 0 to 1."""
        ...

    def evaluate(self) -> dict[str, float]:
        """Measures on the calibration split, `score` among them. Runs without gradients."""
        ...
