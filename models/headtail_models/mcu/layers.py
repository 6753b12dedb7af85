"""A head as the board will see it, still in floating point: a list of layers, channels last.

A dense layer is a 1x1 convolution of a 1x1 picture, and flattening changes nothing but the shape
that the next layer reads, so neither is a kind of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

UNBOUNDED: Final = (-np.inf, np.inf)


class Shape(NamedTuple):
    """Rows, columns and channels of one sample; a signal has one row, a vector one pixel."""

    h: int
    w: int
    c: int

    @property
    def size(self) -> int:
        return self.h * self.w * self.c

    def __str__(self) -> str:
        return f"{self.h}x{self.w}x{self.c}"


class LayerKind(Enum):
    """What a layer computes before its clamp."""

    CONVOLUTION = "convolution"
    DEPTHWISE = "depthwise"
    ADDITION = "addition"
    """Of two tensors, or of one, which is how a clamp that no layer could take in is done."""
    MAX_POOL = "max-pool"
    AVERAGE_POOL = "average-pool"
    """Padding counts as zero, and the divisor is the whole window."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layer:
    """`weights` are (out, kh, kw, in) of a convolution, (channels, kh, kw) of a depthwise one.

    `clamp` is the activation fused into the layer: (0, inf) is a ReLU. `pads`: top, left, bottom,
    right. `inputs` name what earlier layers put out, or the graph's input.
    """

    name: str
    kind: LayerKind
    inputs: tuple[str, ...]
    output: str
    source: Shape
    shape: Shape
    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    clamp: tuple[float, float] = UNBOUNDED
    weights: Floats = field(default_factory=lambda: np.zeros(0, dtype=np.float32))
    bias: Floats = field(default_factory=lambda: np.zeros(0, dtype=np.float32))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeadGraph:
    """Layers in an order in which each finds its inputs ready. Tensors are named."""

    input: str
    input_shape: Shape
    layers: tuple[Layer, ...]
    outputs: Mapping[str, Shape]

    def ordered_for(self, first: str) -> "tuple[HeadGraph, int]":
        """The same graph with what output `first` needs in front, and how many layers that is."""
        needed = {first}
        for layer in reversed(self.layers):
            if layer.output in needed:
                needed.update(layer.inputs)
        early = tuple(layer for layer in self.layers if layer.output in needed)
        late = tuple(layer for layer in self.layers if layer.output not in needed)
        graph = HeadGraph(
            input=self.input,
            input_shape=self.input_shape,
            layers=early + late,
            outputs=self.outputs,
        )
        return graph, len(early)
