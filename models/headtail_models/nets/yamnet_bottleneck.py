"""What is trained for YAMNet: a bottleneck after L3, and an exit beside it.

    patch -> L1 .. L3 (frozen) -> encoder -> latents ~> decoder -> L4' .. L6' -> L7 .. L14 (frozen)
                     \\-> exit: silence, speech, go on

L4' to L6' are copies that learn. The device pays for L1 to L3, exit, encoder and prior.
"""

import copy
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional

from headtail_models.bottleneck.klt import KltDecoder, KltEncoder
from headtail_models.bottleneck.prior import Prior
from headtail_models.nets.yamnet import YamnetNet
from headtail_models.zoo.yamnet_layers import JOIN, TRUNK, shape

EXIT_CLASSES: Final = 3


class YamnetBottleneck(nn.Module):
    """Encoder, prior, decoder and the copies."""

    def __init__(
        self,
        teacher: YamnetNet,
        *,
        channels: int,
        encoder_width: int,
        decoder_width: int,
        decoder_blocks: int,
        prior_hidden: int,
    ) -> None:
        super().__init__()
        width = shape(TRUNK)[0]
        self.encoder = KltEncoder(width, channels, width=encoder_width)
        self.prior = Prior(channels, hidden=prior_hidden)
        self.decoder = KltDecoder(width, channels, width=decoder_width, blocks=decoder_blocks)
        # At full resolution a block costs more than the whole network.
        self.decoder.add_module("last", nn.Identity())
        self.copies = nn.Sequential(
            *(copy.deepcopy(teacher.layers[number - 1]) for number in range(TRUNK + 1, JOIN + 1))
        ).requires_grad_(True)

    def restore(self, latents: Tensor) -> Tensor:
        """What L6 puts out (N, 256, 12, 8), of latents (N, channels, 12, 8)."""
        joined: Tensor = self.copies(functional.relu(self.decoder(latents)))
        return joined


class YamnetExit(nn.Module):
    """Logits (N, 3) of what L3 puts out: silence, speech, neither is sure enough."""

    def __init__(self, *, width: int) -> None:
        super().__init__()
        channels = shape(TRUNK)[0]
        self.depthwise = nn.Conv2d(channels, channels, 3, stride=2, padding=1, groups=channels)
        self.pointwise = nn.Conv2d(channels, width, 1)
        self.last = nn.Linear(2 * width, EXIT_CLASSES)

    def forward(self, features: Tensor) -> Tensor:
        inner = functional.relu(self.pointwise(functional.relu(self.depthwise(features))))
        # Mean and peak: a short word in a long silence is speech.
        seen = torch.cat([inner.mean(dim=(2, 3)), inner.amax(dim=(2, 3))], dim=1)
        logits: Tensor = self.last(seen)
        return logits
