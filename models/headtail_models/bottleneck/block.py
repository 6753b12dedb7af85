"""The bottleneck as a value: encoder, what happens on the way, decoder."""

from collections import OrderedDict
from typing import Protocol

from torch import Tensor, nn


class Prior(Protocol):
    """Knows how latents are spread; an `nn.Module` too if it learns."""

    def bits(self, latent: Tensor) -> Tensor:
        """Estimated for each element, in the shape of `latent`."""
        ...


class Bottleneck(nn.Module):
    """In place of some layers of a network.

        x -> encoder (device) -> wire -> decoder (server) -> y, of the shape the layers gave

    `channels` is how many cross, the b of the literature. `wire` stands for quantisation and is
    not part of what runs: the device's codec and the server's take its place. `prior` estimates
    the bits of a latent, for blocks that are trained for rate.
    """

    def __init__(
        self,
        encoder: nn.Module,
        decoder: nn.Module,
        *,
        channels: int,
        wire: nn.Module | None = None,
        prior: Prior | None = None,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.wire = nn.Identity() if wire is None else wire
        self.decoder = decoder
        self.prior = prior
        self.channels = channels

    def forward(self, tensor: Tensor) -> Tensor:
        decoded: Tensor = self.decoder(self.wire(self.encoder(tensor)))
        return decoded

    def extra_repr(self) -> str:
        return f"channels={self.channels}"


def sequence(*layers: nn.Module) -> nn.Sequential:
    """Layers one after the other, named by number and kind: `3_conv2d`."""
    return nn.Sequential(
        OrderedDict(
            (f"{number}_{type(layer).__name__.lower()}", layer)
            for number, layer in enumerate(layers)
        )
    )


def conv(inputs: int, outputs: int, *, kernel: int, stride: int = 1, padding: int = 0) -> nn.Conv2d:
    """As all published blocks have them: without a bias, a normalisation follows."""
    return nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False)
