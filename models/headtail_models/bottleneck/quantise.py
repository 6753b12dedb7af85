"""Quantisation as modules inside a network, so that it can be trained through and measured."""

import torch
from torch import Tensor, nn

from headtail_models.bottleneck.errors import BottleneckError
from headtail_models.bottleneck.rounding import noisy, rounded


class StraightThrough(nn.Module):
    """Rounds to multiples of `step`, 64 of them around 0, in training too; gradients pass."""

    def __init__(self, step: float = 1.0) -> None:
        super().__init__()
        self.step = _positive(step)

    def forward(self, tensor: Tensor) -> Tensor:
        return self.step * rounded(tensor, self.step)


class UniformNoise(nn.Module):
    """Noise as wide as a `step` in training, rounding as above at test."""

    def __init__(self, step: float = 1.0) -> None:
        super().__init__()
        self.step = _positive(step)

    def forward(self, tensor: Tensor) -> Tensor:
        if self.training:
            return self.step * noisy(tensor, self.step)
        return self.step * rounded(tensor, self.step)


class AffineAtTest(nn.Module):
    """Nothing in training; at test 2**bits levels between the least and the largest value of each
    tensor of the batch.

    A value comes back within half a step, for any range: `low` takes the zero point's place, as in
    the codec's quantiser. (Jacob et al., CVPR 2018, eq. 1.) Raises BottleneckError.
    """

    def __init__(self, bits: int = 8) -> None:
        super().__init__()
        if not 1 <= bits <= 16:
            raise BottleneckError(f"{bits} bits: 1 to 16 are possible")
        self.bits = bits

    def forward(self, tensor: Tensor) -> Tensor:
        if self.training:
            return tensor
        axes = tuple(range(1, tensor.ndim))
        low = tensor.amin(axes, keepdim=True)
        step = (tensor.amax(axes, keepdim=True) - low) / (2**self.bits - 1)
        # A constant tensor has no step; any will do.
        step = torch.where(step > 0, step, torch.ones_like(step))
        return low + ((tensor - low) / step).round() * step


def _positive(step: float) -> float:
    if not step > 0:
        raise BottleneckError(f"a step of {step}; it must be positive")
    return step
