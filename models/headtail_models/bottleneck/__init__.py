"""Bottlenecks: a small encoder for the device and a decoder for the server in place of some layers.

    block = preset("hnd-ghnd").build(channels=3)            or a Bottleneck of your own
    split = inject(resnet(50), replaces=("layer1",), bottleneck=block)
    split.head(picture) -> what crosses;  split.tail(what crossed) -> the answer

Needs the extra `train`.
"""

from headtail_models.bottleneck.block import Bottleneck
from headtail_models.bottleneck.injection import SplitNetwork, inject
from headtail_models.bottleneck.presets import PRESETS, Preset, preset

__all__ = ["PRESETS", "Bottleneck", "Preset", "SplitNetwork", "inject", "preset"]
