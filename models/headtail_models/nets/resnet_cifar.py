"""A small residual network for pictures of 32 x 32, with two early exits and a bottleneck.

    picture (3, 32, 32) -> trunk0 (24, 16, 16) -> trunk1 (48, 8, 8) -> encoder -> latents (24, 4, 4)
                             |                      |                              |
                             branch0 -> logits      branch1 -> logits              tail -> logits

A stage of the trunk is a convolution of stride 2 and a residual block of the same width (He et al.,
CVPR 2016, figure 2), the arrangement that Page, "How to train your ResNet", 2018, found to learn
fastest. The stride of the third stage is the bottleneck: its narrow output is what crosses.
"""

import torch
from torch import Tensor, nn

from headtail_models.bottleneck.rounding import rounded
from headtail_models.nets.resnet import BasicBlock


class ResNetCifar(nn.Module):
    """Pictures (N, 3, 32, 32), normalised, to logits (N, classes).

    `widths` of the three stages; `latents` are the channels that cross. The parts are modules of
    their own, so that each can be exported and run alone.
    """

    def __init__(
        self,
        *,
        classes: int = 10,
        stem: int = 16,
        widths: tuple[int, int, int] = (24, 48, 128),
        latents: int = 24,
        branch: int = 48,
    ) -> None:
        super().__init__()
        first, second, third = widths
        self.trunk0 = nn.Sequential(_convolved(3, stem), _stage(stem, first))
        self.branch0 = _classifier(
            classes, _convolved(first, branch, stride=2), _convolved(branch, branch, stride=2)
        )
        self.trunk1 = _stage(first, second)
        self.branch1 = _classifier(classes, _convolved(second, branch, stride=2))
        # The normalisation makes latents as wide as its weight, which the rate can pull at.
        self.encoder = nn.Sequential(
            nn.Conv2d(second, latents, 3, 2, 1, bias=False), nn.BatchNorm2d(latents)
        )
        self.tail = _classifier(classes, _convolved(latents, third), _residual(third))
        _initialise(self)

    def answers(self, picture: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Logits of the first exit, of the second, of the end, and the latents before rounding."""
        near = self.trunk0(picture)
        far = self.trunk1(near)
        latents = self.encoder(far)
        return self.branch0(near), self.branch1(far), self.tail(rounded(latents, 1.0)), latents

    def forward(self, picture: Tensor) -> Tensor:
        logits: Tensor = self.tail(self.encoder(self.trunk1(self.trunk0(picture))))
        return logits


def gaussian_bits(latents: Tensor) -> Tensor:
    """Bits a picture that latents (N, C, H, W) would need if each channel were a Gaussian.

    The noise of rounding, 1/12, stands in it: a channel that says nothing costs a quarter of a bit
    an element. An upper bound, as no distribution of that variance has more entropy.
    """
    variance = latents.float().var(dim=(0, 2, 3), unbiased=False) + 1 / 12
    bits = 0.5 * torch.log2(2 * torch.pi * torch.e * variance)
    return bits.sum() * latents.shape[2] * latents.shape[3]


def _convolved(inputs: int, outputs: int, *, stride: int = 1) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()
    )


def _residual(width: int) -> nn.Module:
    return BasicBlock(width, width, stride=1, norm=nn.BatchNorm2d)


def _stage(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(_convolved(inputs, outputs, stride=2), _residual(outputs))


def _classifier(classes: int, *layers: nn.Module) -> nn.Module:
    width = next(
        module.num_features
        for module in reversed(list(nn.Sequential(*layers).modules()))
        if isinstance(module, nn.BatchNorm2d)
    )
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes))


def _initialise(network: nn.Module) -> None:
    """He et al., "Delving Deep into Rectifiers", ICCV 2015, eq. 15."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
