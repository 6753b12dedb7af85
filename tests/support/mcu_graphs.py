"""Heads to export in tests: one of every kind of layer, or drawn at random."""

from typing import Any

import numpy as np

from headtail_models.mcu.layers import Floats, HeadGraph, LayerKind, Shape
from headtail_models.mcu.sketch import GraphDrawing

RELU = (0.0, np.inf)


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
