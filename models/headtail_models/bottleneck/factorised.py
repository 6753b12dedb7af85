"""A prior that knows how each channel's latents are spread, and nothing of their neighbours.

The cumulative function of each channel is a small monotonous network. (Ballé, Minnen, Singh, Hwang
and Johnston, "Variational Image Compression with a Scale Hyperprior", ICLR 2018, appendix 6.1.)
"""

from itertools import pairwise
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from headtail_fabric.rans import Alphabet, CodingModel
from headtail_fabric.rans.frequencies import MAX_SYMBOLS, from_counts
from headtail_fabric.rans.table_context import (
    ACTIVITY_BINS,
    REFERENCES,
    TAPS,
    VALUE_BINS,
    TableContext,
)

_WIDTHS: Final = (1, 3, 3, 3, 1)
_LEAST: Final = 1e-9
_SPREAD: Final = 10.0
"""The width that the distributions begin with, in steps."""


class FactorisedPrior(nn.Module):
    """Bits of latents N x C x ..., quantised to multiples of `step` or carrying noise as wide."""

    def __init__(self, channels: int, *, step: float = 1.0) -> None:
        super().__init__()
        self.channels = channels
        self.step = step
        pairs = list(pairwise(_WIDTHS))
        share = _SPREAD ** (1 / len(pairs))
        self.slopes = nn.ParameterList()
        self.shifts = nn.ParameterList()
        self.bends = nn.ParameterList()
        for inputs, outputs in pairs:
            # softplus of this is 1 / (share * outputs): the layers' product has slope 1 / _SPREAD.
            start = float(np.log(np.expm1(1 / (share * outputs))))
            self.slopes.append(nn.Parameter(torch.full((channels, outputs, inputs), start)))
            self.shifts.append(nn.Parameter(torch.rand(channels, outputs, 1) - 0.5))
        for outputs in _WIDTHS[1:-1]:
            self.bends.append(nn.Parameter(torch.zeros(channels, outputs, 1)))

    def bits(self, latent: Tensor) -> Tensor:
        """Of each element, the shape of `latent`; its sum is what a payload needs at best."""
        rows = (latent / self.step).transpose(0, 1).reshape(self.channels, 1, -1)
        bits = -torch.log2(self._likelihood(rows))
        moved = latent.transpose(0, 1)
        return bits.reshape(moved.shape).transpose(0, 1)

    def likelihoods(self, alphabet: Alphabet) -> NDArray[np.float64]:
        """Of each level in each channel: (C, levels)."""
        levels = torch.arange(alphabet.low, alphabet.low + alphabet.count, dtype=torch.float32)
        rows = levels.expand(self.channels, 1, -1)
        with torch.no_grad():
            found = self._likelihood(rows).squeeze(1)
        return found.cpu().numpy().astype(np.float64)

    def coding_model(self, alphabet: Alphabet) -> CodingModel:
        """The integer tables that code such latents, one table a channel, for the bundle.

        Levels outside the alphabet are saturated. Raises ValueError for more than 64 levels or
        256 channels.
        """
        if alphabet.count > MAX_SYMBOLS:
            raise ValueError(f"{alphabet.count} levels: at most {MAX_SYMBOLS}")
        channels = np.arange(self.channels, dtype=np.int64)
        if channels.size > np.iinfo(np.uint8).max + 1:
            raise ValueError(f"{channels.size} channels: at most 256 have a table each")
        cells = np.broadcast_to(
            channels.astype(np.uint8)[:, np.newaxis, np.newaxis],
            (self.channels, ACTIVITY_BINS, VALUE_BINS),
        )
        context = TableContext(
            centres=np.zeros(self.channels, dtype=np.int16),
            references=np.full((self.channels, REFERENCES), -1, dtype=np.int16),
            weights=np.zeros((self.channels, 2, TAPS), dtype=np.int16),
            biases=np.zeros((self.channels, 2), dtype=np.int32),
            cells=np.ascontiguousarray(cells),
        )
        tables = from_counts(self.likelihoods(alphabet))
        return CodingModel(alphabet=alphabet, context=context, tables=tables)

    def _likelihood(self, rows: Tensor) -> Tensor:
        """Of the steps around `rows` (C, 1, n)."""
        low, high = self._logits(rows - 0.5), self._logits(rows + 0.5)
        # On the falling side of the sigmoid a difference keeps more digits.
        sign = -torch.sign(low + high).detach()
        difference = torch.sigmoid(sign * high) - torch.sigmoid(sign * low)
        return difference.abs().clamp_min(_LEAST)

    def _logits(self, rows: Tensor) -> Tensor:
        for number, (slope, shift) in enumerate(zip(self.slopes, self.shifts, strict=True)):
            rows = torch.matmul(functional.softplus(slope), rows) + shift
            if number < len(self.bends):
                rows = rows + torch.tanh(self.bends[number]) * torch.tanh(rows)
        return rows
