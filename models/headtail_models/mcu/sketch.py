"""Heads put together layer by layer, with weights from a seed: for measuring and for tests."""

from dataclasses import replace
from typing import Any

import numpy as np

from headtail_models.mcu.layers import HeadGraph, Layer, LayerKind, Shape


class GraphDrawing:
    """Adds layers one after another; weights come from a seed."""

    def __init__(self, shape: Shape, *, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.shape = shape
        self.last = "x"
        self._input = shape
        self._layers: list[Layer] = []

    def convolution(
        self, channels: int, kernel: tuple[int, int] = (1, 1), **fields: Any
    ) -> "GraphDrawing":
        weights = self.rng.normal(size=(channels, *kernel, self.shape.c))
        weights /= np.sqrt(kernel[0] * kernel[1] * self.shape.c)
        return self._windowed(
            LayerKind.CONVOLUTION, channels, kernel, weights=weights.astype(np.float32), **fields
        )

    def depthwise(self, kernel: tuple[int, int], **fields: Any) -> "GraphDrawing":
        channels = self.shape.c
        weights = self.rng.normal(size=(channels, *kernel))
        return self._windowed(
            LayerKind.DEPTHWISE, channels, kernel, weights=weights.astype(np.float32), **fields
        )

    def pool(self, kind: LayerKind, kernel: tuple[int, int], **fields: Any) -> "GraphDrawing":
        return self._windowed(kind, self.shape.c, kernel, bias=None, **fields)

    def dense(self, outputs: int, **fields: Any) -> "GraphDrawing":
        self.shape = Shape(1, 1, self.shape.size)
        return self.convolution(outputs, **fields)

    def add(self, *names: str, **fields: Any) -> "GraphDrawing":
        return self._append(LayerKind.ADDITION, self.shape, inputs=names, **fields)

    def end(self, *outputs: str) -> HeadGraph:
        shapes = {layer.output: layer.shape for layer in self._layers}
        wanted = outputs or (self.last,)
        return HeadGraph(
            input="x",
            input_shape=self._input,
            layers=tuple(self._layers),
            outputs={name: shapes[name] for name in wanted},
        )

    def named(self, output: str) -> "GraphDrawing":
        """Give the last layer's output a name."""
        self._layers[-1] = replace(self._layers[-1], output=output)
        self.last = output
        return self

    def back_to(self, output: str) -> "GraphDrawing":
        """Go on from an earlier layer."""
        self.last = output
        self.shape = next(one.shape for one in self._layers if one.output == output)
        return self

    def _windowed(
        self, kind: LayerKind, channels: int, kernel: tuple[int, int], **fields: Any
    ) -> "GraphDrawing":
        stride = fields.get("stride", (1, 1))
        pads = fields.get("pads", (0, 0, 0, 0))
        h = (self.shape.h + pads[0] + pads[2] - kernel[0]) // stride[0] + 1
        w = (self.shape.w + pads[1] + pads[3] - kernel[1]) // stride[1] + 1
        if fields.get("bias", True) is None:
            del fields["bias"]
        else:
            fields["bias"] = (self.rng.normal(size=channels) / 2).astype(np.float32)
        return self._append(kind, Shape(h, w, channels), kernel=kernel, **fields)

    def _append(self, kind: LayerKind, shape: Shape, **fields: Any) -> "GraphDrawing":
        output = f"t{len(self._layers)}"
        self._layers.append(
            Layer(
                **{
                    "name": f"{kind.value} {len(self._layers)}",
                    "kind": kind,
                    "inputs": (self.last,),
                    "output": output,
                    "source": self.shape,
                    "shape": shape,
                    **fields,
                }
            )
        )
        self.shape, self.last = shape, output
        return self
