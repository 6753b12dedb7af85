"""Divisive normalisation: each channel is divided by a learnt mixture of all at its place.

Ballé, Laparra and Simoncelli, "Density Modeling of Images Using a Generalized Normalization
Transformation", ICLR 2016; the form without square root is that of Johnston et al.,
"Computationally Efficient Neural Image Compression", 2019, section 3.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

_LEAST: float = 1e-6
_SELF: float = 0.1
_OTHERS: float = 1e-4


class GDN(nn.Module):
    """y_i = x_i / (beta_i + sum_j gamma_ij |x_j|), or the product for the `inverse`. N x C x H x W.

    beta and gamma are kept positive by storing their square roots. C * C multiply-adds a place.
    """

    def __init__(self, channels: int, *, inverse: bool = False) -> None:
        super().__init__()
        self.channels = channels
        self.inverse = inverse
        gamma = torch.full((channels, channels), _OTHERS).fill_diagonal_(_SELF)
        self.beta_root = nn.Parameter(torch.ones(channels))
        self.gamma_root = nn.Parameter(gamma.sqrt())

    def forward(self, tensor: Tensor) -> Tensor:
        beta = self.beta_root.square() + _LEAST
        gamma = self.gamma_root.square()
        pool = functional.conv2d(tensor.abs(), gamma[:, :, None, None], beta)
        return tensor * pool if self.inverse else tensor / pool

    def extra_repr(self) -> str:
        return f"{self.channels}, inverse={self.inverse}"
