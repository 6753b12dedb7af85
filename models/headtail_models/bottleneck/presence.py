"""A branch that says whether a picture holds anything worth sending."""

import torch
from torch import nn
from torch.nn import functional

LEAK = 0.1


class PresenceBranch(nn.Module):
    """Features (N, C, H, W) to two logits (N, 2): nothing, something.

    Where something is small it is seen at one place only, so the largest value counts beside the
    mean.
    """

    def __init__(self, features: int, *, width: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(features, width, 1)
        self.second = nn.Conv2d(width, width, 3, stride=2, padding=1)
        self.drop = nn.Dropout(0.5)
        self.last = nn.Linear(2 * width, 2)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        tensor = functional.max_pool2d(functional.dropout2d(features, 0.2, self.training), 2, 2)
        tensor = functional.leaky_relu(self.first(tensor), LEAK)
        tensor = functional.leaky_relu(self.second(tensor), LEAK)
        pooled = torch.cat([tensor.amax(dim=(2, 3)), tensor.mean(dim=(2, 3))], dim=1)
        result: torch.Tensor = self.last(self.drop(pooled))
        return result
