"""Layers in real numbers to operations in integers, and the bytes of their parameters.

    real = scale * (level - zero) on both sides; weights per channel, without a zero point

Post-training quantisation after Jacob et al. (CVPR 2018) and Krishnamoorthi ("Quantizing deep
convolutional networks for efficient inference", 2018, 3.1.2). With weights stored as w + 128 the
kernels compute sum(x' * w') - 128 * sum(x') + bias', where bias' holds the input's zero point.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headtail_models.mcu.errors import OutOfRangeError, UnsupportedLayerError
from headtail_models.mcu.fixed_point import factor_of, shared_factors
from headtail_models.mcu.layers import Floats, HeadGraph, Layer, LayerKind
from headtail_models.mcu.program import CHANNEL, LANES, Op, OpKind
from headtail_models.mcu.ranges import Quantiser

Doubles = NDArray[np.float64]

MAX_INNER: Final = 33_000
"""Products of one output: 255 * 255 * 33,000 < 2**31."""
LARGEST_BIAS: Final = 2**29
LARGEST_WEIGHT: Final = 127
_MAX_SUM: Final = 2**31 - 2**24
"""With room for what rounding adds."""
_MAX_SIDE: Final = 2**16 - 1
_MAX_WINDOW: Final = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowered:
    """An operation whose places in memory are not known yet, and its parameters."""

    op: Op
    layer: Layer
    parameters: bytes


def lower(graph: HeadGraph, quantisers: Mapping[str, Quantiser]) -> tuple[Lowered, ...]:
    """Raises OutOfRangeError, UnsupportedLayerError. `quantisers` as `settled` leaves them."""
    return tuple(_lower(layer, quantisers) for layer in graph.layers)


def settled(graph: HeadGraph, quantisers: Mapping[str, Quantiser]) -> dict[str, Quantiser]:
    """The quantisers with what a max pool leaves on the scale that it reads.

    Raises UnsupportedLayerError.
    """
    found = dict(quantisers)
    for layer in graph.layers:
        if layer.kind is not LayerKind.MAX_POOL:
            continue
        if found[layer.output].bits != found[layer.inputs[0]].bits:
            raise UnsupportedLayerError(
                f"layer {layer.name}: a max pool can't leave {found[layer.output].bits} bits a "
                "value; put a 1x1 convolution behind it"
            )
        found[layer.output] = found[layer.inputs[0]]
    return found


def _lower(layer: Layer, quantisers: Mapping[str, Quantiser]) -> Lowered:
    _check(layer)
    source, target = quantisers[layer.inputs[0]], quantisers[layer.output]
    second = quantisers[layer.inputs[-1]]
    parameters, fields = b"", {}
    match layer.kind:
        case LayerKind.CONVOLUTION:
            fields = {"k": _padded(layer.kernel[0] * layer.kernel[1] * layer.source.c)}
            parameters = _parameters(layer, source, target, inner=fields["k"])
        case LayerKind.DEPTHWISE:
            fields = {"k": layer.kernel[0] * layer.kernel[1]}
            parameters = _parameters(layer, source, target, inner=fields["k"])
        case LayerKind.ADDITION:
            reals = [q.scale / target.scale for q in (source, second)]
            reals[1] *= len(layer.inputs) > 1
            (m1, m2), shift = shared_factors(tuple(reals), bound=255)
            fields = {"m1": m1, "m2": m2, "shift": shift}
        case LayerKind.AVERAGE_POOL:
            window = layer.kernel[0] * layer.kernel[1]
            real = source.scale / (target.scale * window)
            (m1,), shift = shared_factors((real,), bound=255 * window)
            fields = {"m1": m1, "shift": shift}
        case LayerKind.MAX_POOL:
            pass
    op = Op(
        kind=_KINDS[layer.kind],
        source=layer.source,
        shape=layer.shape,
        src=0,
        dst=0,
        kernel=layer.kernel,
        stride=layer.stride,
        origin=layer.pads[:2],
        z_in=source.zero,
        z_in2=second.zero,
        z_out=target.zero,
        low=target.level(layer.clamp[0]),
        high=target.level(layer.clamp[1]),
        **fields,
    )
    return Lowered(op=op, layer=layer, parameters=parameters)


_KINDS: Final = {
    LayerKind.CONVOLUTION: OpKind.CONVOLUTION,
    LayerKind.DEPTHWISE: OpKind.DEPTHWISE,
    LayerKind.ADDITION: OpKind.ADDITION,
    LayerKind.MAX_POOL: OpKind.MAX_POOL,
    LayerKind.AVERAGE_POOL: OpKind.AVERAGE_POOL,
}


def _parameters(layer: Layer, source: Quantiser, target: Quantiser, *, inner: int) -> bytes:
    """Bias, factors and weights of all channels, to a multiple of 4 bytes."""
    if not (np.isfinite(layer.weights).all() and np.isfinite(layer.bias).all()):
        raise OutOfRangeError(f"layer {layer.name}: weights that are not finite")
    by_channel = layer.weights.astype(np.float64).reshape(layer.shape.c, -1)
    scales = _weight_scales(by_channel, layer.bias, source, target)
    weights = np.rint(by_channel / scales[:, np.newaxis]).astype(np.int64)
    bias = np.rint(layer.bias / (source.scale * scales)).astype(np.int64)
    bias -= source.zero * weights.sum(axis=1)
    bounds = 255 * np.abs(weights).sum(axis=1) + np.abs(bias)
    if bounds.max() >= _MAX_SUM:
        raise OutOfRangeError(
            f"layer {layer.name}: sums up to {bounds.max():,}, "
            f"{bounds.max() - _MAX_SUM + 1:,} more than 32 bits hold"
        )
    table = np.zeros(layer.shape.c, dtype=CHANNEL)
    for channel, (scale, bound) in enumerate(zip(scales, bounds, strict=True)):
        factor = factor_of(source.scale * scale / target.scale, bound=int(bound))
        table[channel] = (
            bias[channel] + factor.half,
            factor.multiplier,
            factor.drop,
            factor.shift,
        )
    stored = np.full((layer.shape.c, inner), 128, dtype=np.uint8)
    stored[:, : weights.shape[1]] = weights + 128
    together = table.tobytes() + stored.tobytes()
    return together + bytes(-len(together) % 4)


def _weight_scales(weights: Doubles, bias: Floats, source: Quantiser, target: Quantiser) -> Doubles:
    """Per channel, wide enough for the bias: a channel of tiny weights may have a large one."""
    scales = np.abs(weights).max(axis=1) / LARGEST_WEIGHT
    scales = np.maximum(scales, np.abs(bias) / (source.scale * LARGEST_BIAS))
    return np.where(scales > 0, scales, target.scale / source.scale)


def _padded(inner: int) -> int:
    return -(-inner // LANES) * LANES


def _check(layer: Layer) -> None:
    inner = layer.kernel[0] * layer.kernel[1] * layer.source.c
    if layer.kind is LayerKind.CONVOLUTION and inner > MAX_INNER:
        raise OutOfRangeError(
            f"layer {layer.name}: {inner} products an output, {inner - MAX_INNER} more than "
            f"{MAX_INNER}"
        )
    side = max(*layer.source, *layer.shape)
    if side > _MAX_SIDE:
        raise OutOfRangeError(
            f"layer {layer.name}: {layer.source} to {layer.shape}, a side {side - _MAX_SIDE} more "
            f"than {_MAX_SIDE}"
        )
    window = max(*layer.kernel, *layer.stride, *layer.pads)
    if window > _MAX_WINDOW:
        raise OutOfRangeError(
            f"layer {layer.name}: window {layer.kernel}, stride {layer.stride}, pads {layer.pads}: "
            f"{window - _MAX_WINDOW} more than {_MAX_WINDOW}"
        )
