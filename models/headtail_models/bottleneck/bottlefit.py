"""BottleFit: an encoder small enough for a microcontroller, for classifiers.

Matsubara, Callegaro, Singh, Levorato and Restuccia, "BottleFit: Learning Compressed
Representations in Deep Neural Networks for Effective and Efficient Split Computing", WoWMoM 2022
(arXiv 2201.02693); their published configuration for ResNet-152.
"""

from typing import Literal

from torch import nn

from headtail_models.bottleneck.block import Bottleneck, conv, sequence

Version = Literal[1, 2, 3]


def bottlefit(
    channels: int = 3,
    *,
    version: Version = 2,
    inputs: int = 3,
    outputs: int = 512,
    width: int = 64,
    wire: nn.Module | None = None,
) -> Bottleneck:
    """For all layers of a ResNet up to layer2, from the picture to layer2's output.

    Version 2, the published one, sends b x 29 x 29 of a picture of 224 x 224. Version 1 narrows
    already the first convolution and sends b x 56 x 56; version 3 sends b x 15 x 15 after a wide
    convolution. Sides must be multiples of 8 (version 3: of 16).
    """
    if version == 1:
        encoder = sequence(*_stem(inputs, channels))
        begin = [
            *_normal_relu(channels),
            conv(channels, width, kernel=2, stride=2, padding=1),
            *_normal_relu(width),
            conv(width, outputs, kernel=2, padding=1),
        ]
    elif version == 2:
        encoder = sequence(
            *_stem(inputs, width),
            *_normal_relu(width),
            conv(width, channels, kernel=2, stride=2, padding=1),
        )
        begin = [*_normal_relu(channels), conv(channels, outputs, kernel=2, padding=1)]
    else:
        encoder = sequence(
            *_stem(inputs, width),
            *_normal_relu(width),
            conv(width, outputs, kernel=2, stride=2, padding=1),
            *_normal_relu(outputs),
            conv(outputs, channels, kernel=2, stride=2, padding=1),
        )
        begin = [
            *_normal_relu(channels),
            nn.ConvTranspose2d(channels, outputs, kernel_size=2, stride=2, bias=False),
        ]
    decoder = sequence(
        *begin,
        *_normal_relu(outputs),
        conv(outputs, outputs, kernel=2, padding=1),
        *_normal_relu(outputs),
        conv(outputs, outputs, kernel=2),
        *_normal_relu(outputs),
        conv(outputs, outputs, kernel=2),
        nn.AvgPool2d(kernel_size=2, stride=1),
    )
    return Bottleneck(encoder, decoder, channels=channels, wire=wire)


def _stem(inputs: int, outputs: int) -> list[nn.Module]:
    return [
        conv(inputs, outputs, kernel=7, stride=2, padding=3),
        *_normal_relu(outputs),
        nn.MaxPool2d(kernel_size=3, stride=2, padding=1),
    ]


def _normal_relu(channels: int) -> list[nn.Module]:
    return [nn.BatchNorm2d(channels), nn.ReLU()]
