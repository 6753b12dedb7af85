"""What an entropy coder will know of a latent before it reads it, as a module that can be trained.

The float twin of `headtail_fabric.rans.conv_context`: a masked convolution predicts the mean and
the scale of a discretised logistic for each latent from all channels above and to the left. Means
and scales are in units of the latents themselves, so one prior serves every quantiser step: at
step s a latent y is coded as the whole number y / s.
"""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from headtail_fabric.rans import Alphabet, CodingModel
from headtail_fabric.rans.conv_context import SCALES, taps
from headtail_fabric.rans.fit_conv import LEAK, MIDDLE, SCALE_STEP, Layers, from_layers

_LEAST = 1e-6


class Prior(nn.Module):
    """Bits of latents (N, channels, H, W)."""

    def __init__(self, channels: int, *, hidden: int, radius: int = 2) -> None:
        super().__init__()
        self.channels, self.radius = channels, radius
        self._taps = taps(radius)
        self.first = nn.Conv2d(channels * len(self._taps), hidden, 1)
        self.second = nn.Conv2d(hidden, 2 * channels, 1)
        nn.init.normal_(self.second.weight, std=0.01)
        nn.init.zeros_(_bias(self.second))

    @property
    def macs_per_position(self) -> int:
        """Multiplications for all channels of one place."""
        return int(self.first.weight.numel() + self.second.weight.numel())

    def predict(self, rounded: torch.Tensor, step: float) -> tuple[torch.Tensor, torch.Tensor]:
        """Mean and scale of each whole number, from those before it; both (N, channels, H, W).

        The scale counts half octaves, `MIDDLE` stands for 1.
        """
        reach = self.radius
        padded = functional.pad(rounded * step, (reach, reach, reach, 0))
        height, width = rounded.shape[2:]
        seen = torch.cat(
            [
                padded[:, :, reach + row : reach + row + height, reach + column :][..., :width]
                for row, column in self._taps
            ],
            dim=1,
        )
        means, scales = self.second(functional.leaky_relu(self.first(seen), LEAK)).chunk(2, dim=1)
        octaves = 2 * math.log2(step)
        return means.float() / step, scales.float() + MIDDLE - octaves

    def bits(self, values: torch.Tensor, context: torch.Tensor, step: float) -> torch.Tensor:
        """Bits of each of `values`, in units of `step`, where `context` (whole numbers) is known.

        `values` are whole numbers, or, in training, latents with uniform noise of one unit (Balle
        et al., "Variational image compression with a scale hyperprior", ICLR 2018, section 2).
        """
        means, scales = self.predict(context, step)
        inverse = torch.exp((MIDDLE - scales.clamp(-1, SCALES)) * SCALE_STEP)
        away = (values - means).abs()
        mass = torch.sigmoid((0.5 - away) * inverse) - torch.sigmoid((-0.5 - away) * inverse)
        return -torch.log2(mass.clamp(min=_LEAST))

    def coding_model(
        self, latents: NDArray[np.int16], alphabet: Alphabet, *, step: float, tiles: tuple[int, int]
    ) -> CodingModel:
        """The integers of this prior for one step, tables counted on `latents` (N, C, H, W) int16.

        Raises ValueError when the weights don't fit into 16 bits.
        """
        count = self.first.weight.shape[0]
        weights1 = self.first.weight.detach().double().numpy()
        # Taps outside, channels inside: as `predict` stacks them.
        by_tap = weights1.reshape(count, len(self._taps), self.channels).transpose(0, 2, 1)
        second = self.second.weight.detach().double().numpy()[:, :, 0, 0].copy()
        biases2 = _bias(self.second).detach().double().numpy().copy()
        second[: self.channels] /= step
        biases2[: self.channels] /= step
        biases2[self.channels :] += MIDDLE - 2 * math.log2(step)
        layers = Layers(
            radius=self.radius,
            weights1=by_tap * step,
            biases1=_bias(self.first).detach().double().numpy(),
            weights2=second,
            biases2=biases2,
        )
        return from_layers(layers, list(latents), alphabet, tiles=tiles)


def _bias(module: nn.Conv2d) -> torch.Tensor:
    assert module.bias is not None
    return module.bias
