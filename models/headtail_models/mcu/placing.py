"""Operations get their places: in the arena for what they read and leave, in the blob for weights.

A tensor lies over the one that it is made of where the kernel allows: additions work value by
value, and a depthwise convolution keeps the rows that it still needs in a strip of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from headtail_models.mcu.arena import Lifetime, plan_arena
from headtail_models.mcu.layers import HeadGraph, Layer, LayerKind
from headtail_models.mcu.program import Op, OpKind
from headtail_models.mcu.quantise import Lowered
from headtail_models.mcu.ranges import Quantiser

_SCRATCH: Final = " scratch of "
"""Begins with a space and so can't be taken for a tensor's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The table's rows in order, the arena that they need, and where each tensor lies."""

    ops: tuple[Op, ...]
    offsets: Mapping[str, int]
    arena: int
    data: bytes


def place(
    graph: HeadGraph,
    lowered: Sequence[Lowered],
    quantisers: Mapping[str, Quantiser],
    *,
    data_offset: int,
) -> Placement:
    """Outputs stay until the end; those of fewer than 8 bits are then packed where they lie."""
    homes = _homes(graph)
    plan = plan_arena(_lifetimes(graph, lowered, homes))
    offsets = {name: plan.offsets[home] for name, home in homes.items()}
    ops, data = [], bytearray()
    for step, low in enumerate(lowered):
        layer = low.layer
        ops.append(
            replace(
                low.op,
                src=offsets[layer.inputs[0]],
                src2=offsets[layer.inputs[-1]] if layer.kind is LayerKind.ADDITION else 0,
                dst=offsets[layer.output],
                scratch=plan.offsets.get(f"{_SCRATCH}{step}", 0),
                data=data_offset + len(data) if low.parameters else 0,
            )
        )
        data += low.parameters
    for name, shape in graph.outputs.items():
        bits, offset = quantisers[name].bits, offsets[name]
        if bits < 8:
            ops.append(
                Op(
                    kind=OpKind.PACK,
                    source=shape,
                    shape=shape,
                    src=offset,
                    dst=offset,
                    shift=bits,
                )
            )
    return Placement(ops=tuple(ops), offsets=offsets, arena=plan.size, data=bytes(data))


def _homes(graph: HeadGraph) -> dict[str, str]:
    """Under whose name the memory of each tensor is booked."""
    last = _last_uses(graph)
    homes = {graph.input: graph.input}
    for step, layer in enumerate(graph.layers):
        over = next(
            (name for name in layer.inputs if last[name] == step and _may_lie_over(layer)), None
        )
        homes[layer.output] = homes[over] if over is not None else layer.output
    return homes


def _lifetimes(
    graph: HeadGraph, lowered: Sequence[Lowered], homes: Mapping[str, str]
) -> list[Lifetime]:
    last = _last_uses(graph)
    spans: dict[str, tuple[int, int, int]] = {
        graph.input: (graph.input_shape.size, 0, last[graph.input])
    }
    for step, layer in enumerate(graph.layers):
        size, first, _ = spans.get(homes[layer.output], (0, step, step))
        spans[homes[layer.output]] = (max(size, layer.shape.size), first, last[layer.output])
    scratch = (
        Lifetime(name=f"{_SCRATCH}{step}", size=low.op.scratch_bytes, first=step, last=step)
        for step, low in enumerate(lowered)
        if low.op.scratch_bytes
    )
    tensors = (
        Lifetime(name=name, size=size, first=first, last=end)
        for name, (size, first, end) in spans.items()
    )
    return [*tensors, *scratch]


def _last_uses(graph: HeadGraph) -> dict[str, int]:
    """The step that reads each tensor last; of what nobody reads, the step that makes it."""
    end = len(graph.layers)
    last = {graph.input: 0}
    for step, layer in enumerate(graph.layers):
        last[layer.output] = step
        last.update(dict.fromkeys(layer.inputs, step))
    last.update(dict.fromkeys(graph.outputs, end))
    return last


def _may_lie_over(layer: Layer) -> bool:
    """Whether output row y may be written as soon as row y has been computed."""
    if layer.kind is LayerKind.ADDITION:
        return True
    if layer.kind is not LayerKind.DEPTHWISE or layer.shape.size > layer.source.size:
        return False
    for y in range(layer.shape.h):
        # Rows that the strip has taken in by then; the last of them all is never read again.
        taken = min(layer.source.h, y * layer.stride[0] - layer.pads[0] + layer.kernel[0])
        if (y + 1) * layer.shape.w > taken * layer.source.w:
            return False
    return True
