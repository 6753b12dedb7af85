"""The head in floating point: what calibration looks at, and what the integers are judged by."""

from collections.abc import Iterator
from typing import cast

import numpy as np

from headtail_models.mcu.layers import Floats, HeadGraph, Layer, LayerKind
from headtail_models.mcu.windows import windows


def run_floats(graph: HeadGraph, samples: Floats) -> dict[str, Floats]:
    """Every tensor by name, (N, h, w, c), for samples of that shape."""
    return dict(each_tensor(graph, samples))


def each_tensor(graph: HeadGraph, samples: Floats) -> Iterator[tuple[str, Floats]]:
    """The tensors one after another, the input first."""
    values = {graph.input: samples.astype(np.float32)}
    yield graph.input, values[graph.input]
    for layer in graph.layers:
        inputs = [values[name].reshape(-1, *layer.source) for name in layer.inputs]
        values[layer.output] = _run(layer, inputs)
        yield layer.output, values[layer.output]


def _run(layer: Layer, inputs: list[Floats]) -> Floats:
    x = inputs[0]
    match layer.kind:
        case LayerKind.ADDITION:
            y = sum(inputs[1:], start=x)
        case LayerKind.MAX_POOL:
            y = _windows(layer, x, fill=-np.inf).max(axis=(3, 4))
        case LayerKind.AVERAGE_POOL:
            y = _windows(layer, x, fill=0).mean(axis=(3, 4), dtype=np.float64)
        case LayerKind.DEPTHWISE:
            taps = _windows(layer, x, fill=0) * layer.weights.transpose(1, 2, 0)
            y = taps.sum(axis=(3, 4)) + layer.bias
        case LayerKind.CONVOLUTION:
            looked = _windows(layer, x, fill=0)
            columns = looked.reshape(*looked.shape[:3], -1)
            y = columns @ layer.weights.reshape(layer.shape.c, -1).T + layer.bias
    return cast("Floats", np.clip(y, *layer.clamp).astype(np.float32))


def _windows(layer: Layer, x: Floats, *, fill: float) -> Floats:
    return windows(
        x,
        shape=layer.shape,
        kernel=layer.kernel,
        stride=layer.stride,
        origin=layer.pads[:2],
        fill=fill,
    )
