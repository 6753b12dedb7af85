"""A head in torch that has each kind of layer that boards have."""

from typing import Final

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from headtail_models.mcu.layers import Floats

SHAPE: Final = (3, 12, 10)
OUTPUTS: Final = ("vector", "logits", "code")


class Everything(nn.Module):
    """Three outputs."""

    def __init__(self, *, normalised: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.stem = nn.Sequential(
            nn.Conv2d(3, 8, (5, 3), stride=(2, 1), padding=(2, 1), bias=False),
            nn.BatchNorm2d(8) if normalised else nn.Identity(),
            nn.ReLU6(),
        )
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.pointwise = nn.Conv2d(8, 8, 1)
        self.peaks = nn.MaxPool2d(2)
        self.means = nn.AvgPool2d((3, 1), stride=1, padding=(1, 0))
        self.bottleneck = nn.Sequential(nn.Conv2d(8, 4, 1), nn.Hardtanh(0.0, 6.0))
        self.flat = nn.Flatten()
        self.dense = nn.Sequential(nn.Dropout(0.5), nn.Linear(8 * 3 * 5, 7), nn.ReLU())
        self.last = nn.AdaptiveAvgPool2d(1)
        self.answer = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        x = self.stem(x)
        x = x + torch.relu(self.pointwise(functional.relu(self.depthwise(x))))
        x = self.means(self.peaks(x))
        return (
            self.dense(self.flat(x)),
            self.answer(torch.flatten(self.last(x), 1)),
            self.bottleneck(x),
        )


def drawn(count: int) -> Floats:
    """Noise of `SHAPE`."""
    return np.random.default_rng(1).normal(size=(count, *SHAPE)).astype(np.float32)


def with_statistics() -> Everything:
    """Normalised, by statistics that are not 0 and 1."""
    module = Everything(normalised=True)
    module.train()
    module(torch.from_numpy(drawn(32)))
    return module.eval()
