"""Rounding that gradients pass through, the noise that stands for it in a rate, and its cost."""

import math

import torch

LOWEST = -32
HIGHEST = 31
"""Whole numbers that a latent may become: 64 symbols, as many as a frequency table has."""


def rounded(latents: torch.Tensor, step: float) -> torch.Tensor:
    """Whole numbers (N, C, H, W) of latents at a step; gradients as if nothing was rounded.

    (The straight-through estimator of Bengio, Leonard, Courville, 2013.)
    """
    scaled = latents / step
    whole = scaled.round().clamp(LOWEST, HIGHEST)
    return scaled + (whole - scaled).detach()


def noisy(latents: torch.Tensor, step: float) -> torch.Tensor:
    """Latents in units of the step with uniform noise of one unit (Balle, Laparra, Simoncelli,
    "End-to-end optimized image compression", ICLR 2017, section 3)."""
    scaled = latents / step
    return scaled + torch.rand_like(scaled) - 0.5


def entropy(whole: torch.Tensor) -> float:
    """Bits of all channels of one place of (N, C, H, W), by a histogram of each channel."""
    bits = 0.0
    for channel in whole.transpose(0, 1).flatten(1):
        counts = torch.bincount((channel - LOWEST).long(), minlength=HIGHEST - LOWEST + 1)
        shares = counts[counts > 0] / counts.sum()
        bits -= float((shares * shares.log2()).sum())
    return bits


def scale_for(latents: torch.Tensor, bits: float) -> float:
    """What latents are multiplied by so that `entropy` of their whole numbers is `bits` a place."""
    low, high = 1e-6, 1e6
    for _ in range(40):
        middle = math.sqrt(low * high)
        if entropy((latents * middle).round().clamp(LOWEST, HIGHEST)) > bits:
            high = middle
        else:
            low = middle
    return math.sqrt(low * high)
