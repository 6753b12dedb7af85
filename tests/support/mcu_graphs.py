"""Heads to export in tests: one of every kind of layer, or drawn at random."""

from dataclasses import replace
from typing import Any

import numpy as np

from headtail_models.mcu.layers import Floats, HeadGraph, Layer, LayerKind, Shape

RELU = (0.0, np.inf)


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
            LayerKind.CONVOLUTION, channels, kernel, weights=_floats(weights), **fields
        )

    def depthwise(self, kernel: tuple[int, int], **fields: Any) -> "GraphDrawing":
        channels = self.shape.c
        weights = self.rng.normal(size=(channels, *kernel))
        return self._windowed(
            LayerKind.DEPTHWISE, channels, kernel, weights=_floats(weights), **fields
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
            fields["bias"] = _floats(self.rng.normal(size=channels) / 2)
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


def every_kind() -> HeadGraph:
    """Each kind of layer, odd sizes, an addition that stays alive, an exit in the middle."""
    drawing = GraphDrawing(Shape(11, 7, 3), seed=1)
    drawing.convolution(10, (3, 2), stride=(2, 1), pads=(1, 1, 1, 0), clamp=RELU).named("trunk")
    drawing.depthwise((3, 3), pads=(1, 1, 1, 1), clamp=(0.0, 6.0))
    drawing.convolution(10)
    drawing.add("trunk", drawing.last, clamp=RELU).named("sum")
    drawing.pool(LayerKind.AVERAGE_POOL, (drawing.shape.h, drawing.shape.w))
    drawing.dense(5).named("logits")
    drawing.back_to("sum").pool(LayerKind.MAX_POOL, (2, 3), stride=(2, 2), pads=(1, 1, 0, 0))
    drawing.depthwise((2, 2), pads=(1, 0, 0, 1))
    drawing.convolution(4, clamp=RELU).named("features")
    return drawing.end("features", "logits")


def drawn_graph(seed: int) -> HeadGraph:
    """A chain of three to six layers of any kind and geometry that fit, from a seed."""
    rng = np.random.default_rng(seed)
    shape = Shape(*(int(n) for n in rng.integers(1, 13, size=3)))
    drawing = GraphDrawing(shape, seed=seed)
    for _ in range(int(rng.integers(3, 7))):
        _draw_layer(drawing, rng)
    return drawing.convolution(int(rng.integers(1, 9))).end()


def drawn_samples(graph: HeadGraph, *, count: int = 8, seed: int = 0) -> Floats:
    """Noise of the input's shape."""
    rng = np.random.default_rng(seed)
    return _floats(rng.normal(size=(count, *graph.input_shape)))


def _draw_layer(drawing: GraphDrawing, rng: np.random.Generator) -> None:
    h, w, _ = drawing.shape
    kernel = int(rng.integers(1, min(h, 4) + 1)), int(rng.integers(1, min(w, 4) + 1))
    geometry: dict[str, Any] = {
        "stride": (int(rng.integers(1, 4)), int(rng.integers(1, 4))),
        "pads": tuple(int(rng.integers(0, k)) for k in kernel + kernel),
    }
    clamp = (0.0, float(rng.uniform(0.5, 3))) if rng.random() < 0.5 else (-np.inf, np.inf)
    match int(rng.integers(6)):
        case 0:
            drawing.convolution(int(rng.integers(1, 20)), kernel, clamp=clamp, **geometry)
        case 1:
            drawing.depthwise(kernel, clamp=clamp, **geometry)
        case 2:
            drawing.pool(LayerKind.MAX_POOL, kernel, **geometry)
        case 3:
            drawing.pool(LayerKind.AVERAGE_POOL, kernel, clamp=clamp, **geometry)
        case 4:
            drawing.add(drawing.last, drawing.last, clamp=clamp)
        case _:
            drawing.dense(int(rng.integers(1, 30)), clamp=clamp)


def _floats(values: Any) -> Floats:
    return np.asarray(values, dtype=np.float32)
