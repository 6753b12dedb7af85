"""The entropic student: a bottleneck trained for the bits that its latents really need.

Matsubara, Yang, Levorato and Mandt, "Supervised Compression for Resource-Constrained Edge
Computing Systems", WACV 2022, section 3; their published configuration for ResNet-50.
"""

from headtail_models.bottleneck.block import Bottleneck, conv, sequence
from headtail_models.bottleneck.factorised import FactorisedPrior
from headtail_models.bottleneck.gdn import GDN
from headtail_models.bottleneck.quantise import UniformNoise


def entropic_student(
    channels: int = 24,
    *,
    inputs: int = 3,
    outputs: int = 256,
    width: int = 96,
    kernel: int = 5,
    step: float = 1.0,
) -> Bottleneck:
    """For all layers of a ResNet up to layer1: a picture of 224 x 224 -> b x 55 x 55 -> layer1's
    output. Sides must be multiples of 4, `kernel` odd.

    The published 466 MMAC of the encoder leave out its normalisations: they take 123 MMAC more.
    """
    half = width // 2
    encoder = sequence(
        conv(inputs, width, kernel=kernel, stride=2, padding=kernel // 2),
        GDN(width),
        conv(width, half, kernel=kernel, stride=2, padding=kernel // 2),
        GDN(half),
        conv(half, channels, kernel=2),
    )
    decoder = sequence(
        conv(channels, 2 * outputs, kernel=2, padding=1),
        GDN(2 * outputs, inverse=True),
        conv(2 * outputs, outputs, kernel=2),
        GDN(outputs, inverse=True),
        conv(outputs, outputs, kernel=2, padding=1),
    )
    return Bottleneck(
        encoder,
        decoder,
        channels=channels,
        wire=UniformNoise(step),
        prior=FactorisedPrior(channels, step=step),
    )
