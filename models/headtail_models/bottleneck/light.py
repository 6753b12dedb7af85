"""A light encoder: fewer multiplications than the trunk that it stands for."""

import torch
from torch import nn
from torch.nn import functional

LEAK = 0.1


class LightEncoder(nn.Module):
    """Shallow features (N, inputs, H, W) to latents (N, channels, H/8, W/8), not yet rounded.

    Three strided convolutions of rising `widths`, then two of one place each, with a way past the
    last one.
    """

    def __init__(self, inputs: int, channels: int, *, widths: tuple[int, int, int]) -> None:
        super().__init__()
        first, second, third = widths
        self.first = nn.Conv2d(inputs, first, 3, stride=2, padding=1)
        self.second = nn.Conv2d(first, second, 3, stride=2, padding=1)
        self.third = nn.Conv2d(second, third, 3, stride=2, padding=1)
        self.bent = nn.Conv2d(third, third, 1)
        self.last = nn.Conv2d(third, channels, 1)

    def forward(self, shallow: torch.Tensor) -> torch.Tensor:
        tensor = shallow
        for layer in (self.first, self.second, self.third):
            tensor = functional.leaky_relu(layer(tensor), LEAK)
        tensor = tensor + functional.leaky_relu(self.bent(tensor), LEAK)
        result: torch.Tensor = self.last(tensor)
        return result
