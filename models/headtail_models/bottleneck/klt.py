"""Ours: a bottleneck that begins as a sensitivity-weighted Karhunen-Loeve transform.

From random weights a bottleneck needs days of training; the principal components of the frozen
trunk's features, measured by how much the next layer feels them, are a good code with no training
at all. A small branch beside them, which begins at zero, learns what is not linear.

    encoder    y = A x + a + branch(x)          A a strided convolution of 2x2 places
    decoder    x' = B y + b + branch(y)         then a residual block
    A = alpha V^T G      B = G^-1 V / alpha     G^2 = sum over taps of W^T W of the next layer

V are the leading eigenvectors of the covariance of G x over blocks of 2x2 places; `alpha` scales
the latents so that rounding them to whole numbers costs the wanted rate.
"""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

BLOCK = 2
LEAK = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Klt:
    """The transform of C channels in blocks of 2x2 places to `channels` latents.

    `analysis` (channels, C, 2, 2), `offset` (channels,); `synthesis` (channels, C, 2, 2), `mean`
    (C,); `variances` (channels,) of the latents.
    """

    analysis: torch.Tensor
    offset: torch.Tensor
    synthesis: torch.Tensor
    mean: torch.Tensor
    variances: torch.Tensor

    def scaled(self, alpha: float) -> "Klt":
        """The same transform with latents `alpha` times as large."""
        return Klt(
            analysis=self.analysis * alpha,
            offset=self.offset * alpha,
            synthesis=self.synthesis / alpha,
            mean=self.mean,
            variances=self.variances * alpha**2,
        )


def sensitivity(kernel: torch.Tensor) -> torch.Tensor:
    """The metric (C, C) of what the convolution `kernel` (out, C, k, k) feels of its input."""
    taps = kernel.detach().double().permute(2, 3, 0, 1).reshape(-1, *kernel.shape[:2])
    return torch.einsum("toc,tod->cd", taps, taps)


def fit(features: torch.Tensor, metric: torch.Tensor, channels: int) -> Klt:
    """The transform of `features` (N, C, H, W), weighted by `metric` (C, C).

    Raises ValueError for more latents than there are values in a block.
    """
    width = features.shape[1]
    if channels > width * BLOCK**2:
        raise ValueError(f"{channels} latents of {width * BLOCK**2} values")
    values, vectors = torch.linalg.eigh(metric.double())
    values = values.clamp(min=float(values.max()) * 1e-6)
    root = vectors @ torch.diag(values.sqrt()) @ vectors.T
    back = vectors @ torch.diag(values.rsqrt()) @ vectors.T
    mean = features.double().mean(dim=(0, 2, 3))
    centred = features.double() - mean[:, None, None]
    weighted = torch.einsum("cd,ndhw->nchw", root, centred)
    blocks = functional.pixel_unshuffle(weighted, BLOCK).permute(1, 0, 2, 3).flatten(1)
    variances, basis = torch.linalg.eigh(blocks @ blocks.T / blocks.shape[1])
    order = torch.argsort(variances, descending=True)[:channels]
    components = basis[:, order].T.reshape(channels, width, BLOCK, BLOCK)
    analysis = torch.einsum("bchw,cd->bdhw", components, root)
    synthesis = torch.einsum("bchw,cd->bdhw", components, back)
    return Klt(
        analysis=analysis.float(),
        offset=-torch.einsum("bchw,c->b", analysis, mean).float(),
        synthesis=synthesis.float(),
        mean=mean.float(),
        variances=variances[order].float(),
    )


class KltEncoder(nn.Module):
    """Features (N, C, H, W) to latents (N, channels, H/2, W/2), not yet rounded."""

    def __init__(self, features: int, channels: int, *, width: int) -> None:
        super().__init__()
        self.linear = nn.Conv2d(features, channels, BLOCK, stride=BLOCK)
        self.inner = nn.Conv2d(features, width, 3, stride=2, padding=1)
        self.outer = nn.Conv2d(width, channels, 1)
        _silence(self.outer)

    def bent(self) -> list[nn.Parameter]:
        """All but the transform."""
        return [*self.inner.parameters(), *self.outer.parameters()]

    def start(self, klt: Klt) -> None:
        """Begin at the transform."""
        with torch.no_grad():
            self.linear.weight.copy_(klt.analysis)
            _bias(self.linear).copy_(klt.offset)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        inner = functional.leaky_relu(self.inner(features), LEAK)
        result: torch.Tensor = self.linear(features) + self.outer(inner)
        return result


class KltDecoder(nn.Module):
    """Latents (N, channels, H, W) back to features (N, C, 2 H, 2 W)."""

    def __init__(self, features: int, channels: int, *, width: int, blocks: int) -> None:
        super().__init__()
        self.linear = nn.ConvTranspose2d(channels, features, BLOCK, stride=BLOCK)
        self.inner = nn.Conv2d(channels, width, 3, padding=1)
        self.blocks = nn.Sequential(*(ResidualBlock(width) for _ in range(blocks)))
        self.outer = nn.Conv2d(width, features * BLOCK**2, 1)
        self.last = ResidualBlock(features)
        _silence(self.outer)

    def bent(self) -> list[nn.Parameter]:
        """All but the inverse of the transform."""
        parts = (self.inner, self.blocks, self.outer, self.last)
        return [parameter for part in parts for parameter in part.parameters()]

    def start(self, klt: Klt) -> None:
        """Begin at the inverse of the transform."""
        with torch.no_grad():
            self.linear.weight.copy_(klt.synthesis)
            _bias(self.linear).copy_(klt.mean)

    def forward(self, latents: torch.Tensor) -> torch.Tensor:
        inner = self.blocks(functional.leaky_relu(self.inner(latents), LEAK))
        bent = functional.pixel_shuffle(self.outer(inner), BLOCK)
        result: torch.Tensor = self.last(self.linear(latents) + bent)
        return result


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions beside the identity; begins as the identity."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.Conv2d(width, width, 3, padding=1)
        self.outer = nn.Conv2d(width, width, 3, padding=1)
        _silence(self.outer)

    def forward(self, tensor: torch.Tensor) -> torch.Tensor:
        inner = functional.leaky_relu(self.inner(tensor), LEAK)
        result: torch.Tensor = tensor + self.outer(inner)
        return result


def groups(encoder: KltEncoder, decoder: KltDecoder) -> dict[str, list[nn.Parameter]]:
    """What learns, as recipes name it: both transforms, and what bends beside each."""
    return {
        "klt": [*encoder.linear.parameters(), *decoder.linear.parameters()],
        "encoder": encoder.bent(),
        "decoder": decoder.bent(),
    }


def _silence(module: nn.Conv2d) -> None:
    nn.init.zeros_(module.weight)
    nn.init.zeros_(_bias(module))


def _bias(module: nn.Conv2d | nn.ConvTranspose2d) -> torch.Tensor:
    assert module.bias is not None
    return module.bias
