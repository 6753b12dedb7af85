"""Puts a head together, whatever it is read from: what ONNX and torch have in common.

Flattening and dropping out change no values, so they only give a tensor another name; a clamp goes
into the layer before it where nobody else reads that.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headtail_models.mcu.errors import UnsupportedLayerError
from headtail_models.mcu.layers import Floats, HeadGraph, Layer, LayerKind, Shape


class Origin(NamedTuple):
    """Where a layer comes from, for messages: its name and the operation as its author calls it."""

    name: str
    operation: str

    def refused(self, why: str) -> UnsupportedLayerError:
        return UnsupportedLayerError(f"layer {self.name} ({self.operation}): {why}")


class GraphBuilder:
    """`_storage` says which layer's output holds the values of a tensor; `_flat` which shape the
    values of a flattened one have."""

    def __init__(self, input: str, shape: Shape) -> None:
        self._input = input
        self._shapes = {input: shape}
        self._storage = {input: input}
        self._flat: dict[str, Shape] = {}
        self._layers: dict[str, Layer] = {}

    def holds(self, name: str) -> bool:
        """Whether it is a tensor that the graph computes, or its input."""
        return name in self._storage

    def shape(self, name: str) -> Shape:
        return self._shapes[name]

    def append(
        self,
        origin: Origin,
        kind: LayerKind,
        *,
        inputs: Sequence[str],
        output: str,
        shape: Shape,
        **fields: Any,
    ) -> None:
        """`fields` of the layer; its source is its first input's shape where they don't say."""
        layer = Layer(
            **{
                "name": origin.name,
                "kind": kind,
                "inputs": tuple(self._storage[name] for name in inputs),
                "output": output,
                "source": self.shape(inputs[0]),
                "shape": shape,
                **fields,
            }
        )
        self._layers[output] = layer
        self._storage[output] = output
        self._shapes[output] = shape

    def convolution(
        self,
        origin: Origin,
        *,
        input: str,
        output: str,
        shape: Shape,
        weights: NDArray[Any],
        bias: Floats,
        groups: int,
        **geometry: Any,
    ) -> None:
        """`weights` (out, in / groups, kh, kw), as both ONNX and torch have them."""
        source, (out, depth) = self.shape(input), weights.shape[:2]
        if groups == 1:
            kind, ordered = LayerKind.CONVOLUTION, weights.transpose(0, 2, 3, 1)
        elif groups == source.c == out and depth == 1:
            kind, ordered = LayerKind.DEPTHWISE, weights[:, 0]
        else:
            raise origin.refused(f"{groups} groups of {source.c} channels in, {out} out")
        self.append(
            origin,
            kind,
            inputs=(input,),
            output=output,
            shape=shape,
            kernel=(int(ordered.shape[1]), int(ordered.shape[2])),
            weights=_floats(ordered),
            bias=_floats(bias),
            **geometry,
        )

    def dense(
        self, origin: Origin, *, input: str, output: str, weights: NDArray[Any], bias: Floats
    ) -> None:
        """`weights` (out, in), for a tensor that may have been flattened channels first."""
        before = self._flat.get(input, self.shape(input))
        if before.size != weights.shape[1]:
            raise origin.refused(f"{weights.shape[1]} inputs of a tensor of {before}, not flat")
        # The board's values lie channels last.
        ordered = weights.reshape(-1, before.c, before.h, before.w).transpose(0, 2, 3, 1)
        self.append(
            origin,
            LayerKind.CONVOLUTION,
            inputs=(input,),
            output=output,
            shape=Shape(1, 1, weights.shape[0]),
            source=Shape(1, 1, before.size),
            weights=_floats(ordered.reshape(-1, 1, 1, before.size)),
            bias=_floats(bias),
        )

    def addition(self, origin: Origin, *, inputs: Sequence[str], output: str) -> None:
        """Of two tensors of one shape."""
        first, second = inputs
        if not (self.holds(first) and self.holds(second)):
            raise origin.refused("addition of a constant")
        if self.shape(first) != self.shape(second):
            raise origin.refused(
                f"addition of unlike shapes, {self.shape(first)} and {self.shape(second)}"
            )
        if self._flat.get(first) != self._flat.get(second):
            raise origin.refused("addition of tensors flattened from unlike shapes")
        self._keep_flat(first, output)
        self.append(
            origin, LayerKind.ADDITION, inputs=inputs, output=output, shape=self.shape(first)
        )

    def clamp(
        self, origin: Origin, *, input: str, output: str, low: float, high: float, alone: bool
    ) -> None:
        """`alone`: nobody else reads the input."""
        self._keep_flat(input, output)
        layer = self._layers.get(input)
        if layer is None or not alone:
            self.append(
                origin,
                LayerKind.ADDITION,
                inputs=(input,),
                output=output,
                shape=self.shape(input),
                clamp=(low, high),
            )
            return
        bounds = max(layer.clamp[0], low), min(layer.clamp[1], high)
        del self._layers[input]
        self._layers[output] = replace(layer, output=output, clamp=bounds)
        self._storage[output] = output
        self._shapes[output] = layer.shape

    def rename(self, origin: Origin, *, input: str, output: str, shape: Shape) -> None:
        """The same values, perhaps flattened."""
        before = self._flat.get(input, self.shape(input))
        if shape.size != before.size or shape not in (before, Shape(1, 1, before.size)):
            raise origin.refused(f"{before} to {shape}")
        if shape != before:
            self._flat[output] = before
        self._storage[output] = self._storage[input]
        self._shapes[output] = shape

    def graph(self, outputs: Sequence[str]) -> HeadGraph:
        """Layers in the order in which the outputs, one after another, need them: the same for the
        same network, wherever it was read from. Raises UnsupportedLayerError."""
        shapes = {}
        for name in outputs:
            stored = self._storage.get(name)
            if stored is None or stored not in self._layers:
                raise UnsupportedLayerError(f"output {name} is not computed")
            shapes[stored] = self._layers[stored].shape
        return HeadGraph(
            input=self._input,
            input_shape=self.shape(self._input),
            layers=tuple(self._needed(shapes)),
            outputs=shapes,
        )

    def _needed(self, outputs: Iterable[str]) -> Iterator[Layer]:
        done = {self._input}
        waiting = [*outputs][::-1]
        while waiting:
            name = waiting[-1]
            if name in done:
                waiting.pop()
                continue
            missing = [one for one in self._layers[name].inputs if one not in done]
            waiting += missing[::-1]
            if not missing:
                done.add(waiting.pop())
                yield self._layers[name]

    def _keep_flat(self, input: str, output: str) -> None:
        if input in self._flat:
            self._flat[output] = self._flat[input]


def check_pads(origin: Origin, pads: Sequence[int], kernel: tuple[int, int]) -> None:
    """Top, left, bottom, right: less than the window. Raises UnsupportedLayerError."""
    if any(not 0 <= pad < size for pad, size in zip(pads, kernel + kernel, strict=True)):
        raise origin.refused(f"pads {tuple(pads)} of a window {kernel}")


def _floats(values: Any) -> Floats:
    return np.ascontiguousarray(values, dtype=np.float32)
