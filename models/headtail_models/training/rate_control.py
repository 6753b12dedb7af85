"""Steers the weight of the rate so that a training meets its rate."""

import math
from typing import Final

import torch
from torch import nn

_GAIN: Final = 0.03


class RateControl(nn.Module):
    """lambda of distortion + lambda * rate; part of a checkpoint. It grows while the rate is above
    its target, by at most 3 % a step, and shrinks while it is below."""

    weight: torch.Tensor

    def __init__(self, start: float) -> None:
        super().__init__()
        self.register_buffer("weight", torch.tensor(math.log(start)))

    @property
    def value(self) -> float:
        return math.exp(float(self.weight))

    def see(self, rate: float, target: float) -> None:
        """One step came out at `rate`."""
        self.weight += _GAIN * min(1.0, max(-1.0, rate / target - 1))
