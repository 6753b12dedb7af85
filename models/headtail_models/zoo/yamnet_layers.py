"""YAMNet as numbers: a MobileNet (Howard et al., arXiv 1704.04861) for sounds, 521 classes.

    patch (1, 96, 64) -> L1 .. L14 -> mean over places -> classifier -> logits (521,)

L1 is a convolution, each of L2 .. L14 a depthwise and a pointwise one, with a ReLU behind all.
Batch normalisation is folded in.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headtail_fabric.errors import ConfigError

Floats = NDArray[np.float32]
Shape = tuple[int, int, int]
"""Channels, spectra, bands."""

PATCH: Final[Shape] = (1, 96, 64)
LAYERS: Final = 14
CLASSES: Final = 521
TOP: Final = 1024
TRUNK: Final = 3
"""Headtail's bottleneck begins after this layer: 10.7 % of the multiplications lie before it."""
JOIN: Final = 6
"""Its decoder gives back what this layer puts out; the published layers go on from there."""
_PLAN: Final = (
    (1, 32, 2),
    (2, 64, 1),
    (3, 128, 2),
    (4, 128, 1),
    (5, 256, 2),
    (6, 256, 1),
    (7, 512, 2),
    (8, 512, 1),
    (9, 512, 1),
    (10, 512, 1),
    (11, 512, 1),
    (12, 512, 1),
    (13, 1024, 2),
    (14, 1024, 1),
)
"""Number, channels out and stride of each layer."""


class YamnetError(ConfigError):
    """The file does not hold YAMNet as it is known here. Take the asset that Headtail names."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Convolution:
    """`kernel` (out, in / groups, k, k), `bias` (out,)."""

    kernel: Floats
    bias: Floats
    stride: int
    groups: int

    @property
    def pads(self) -> tuple[int, int]:
        """At the begin and the end of both axes: TensorFlow's SAME for even sides, where the odd
        place lies at the end."""
        total = max(0, self.kernel.shape[2] - self.stride)
        return total // 2, total - total // 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Yamnet:
    """`layers[n - 1]` are the convolutions of Ln; `classifier` (521, 1024), `bias` (521,)."""

    layers: tuple[tuple[Convolution, ...], ...]
    classifier: Floats
    bias: Floats

    def macs(self, *, after: int, until: int | None) -> int:
        """Multiply-adds for one patch from behind L`after` to L`until`, None: to the logits."""
        total = 0 if until is not None else self.classifier.size
        for number in range(after + 1, (LAYERS if until is None else until) + 1):
            places = prod(shape(number)[1:])
            total += sum(step.kernel.size * places for step in self.layers[number - 1])
        return total


def shape(number: int) -> Shape:
    """What layer L`number` puts out; L0 is the patch."""
    channels, rows, columns = PATCH
    for layer, width, stride in _PLAN:
        if layer <= number:
            channels, rows, columns = width, rows // stride, columns // stride
    return channels, rows, columns


def convolutions() -> Iterator[tuple[int, tuple[int, int, int, int], int, int]]:
    """Of all layers in order: number of the layer, kernel's shape, stride, groups."""
    inputs = 1
    for number, outputs, stride in _PLAN:
        if number == 1:
            yield number, (outputs, 1, 3, 3), stride, 1
        else:
            yield number, (inputs, 1, 3, 3), stride, inputs
            yield number, (outputs, inputs, 1, 1), 1, 1
        inputs = outputs
