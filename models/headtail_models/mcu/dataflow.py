"""Which value each operation of a program reads, found by where in the arena it lies.

A blob holds no scales of what lies between layers: each operation has its factor from one to the
next instead. What follows from the factors is found here again.
"""

from collections import defaultdict
from dataclasses import dataclass

from headtail_models.mcu.program import Op, OpKind, Program


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataflow:
    """Value 0 is the input, value i + 1 what operation i leaves. Packing is left out."""

    ops: tuple[Op, ...]
    inputs: tuple[tuple[int, ...], ...]
    outputs: tuple[int, ...]

    @classmethod
    def of(cls, program: Program) -> "Dataflow":
        ops = tuple(op for op in program.ops if op.kind is not OpKind.PACK)
        held, inputs = {program.input_offset: 0}, []
        for step, op in enumerate(ops):
            inputs.append(tuple(held[place] for place, _ in _terms(op)))
            held[op.dst] = step + 1
        return cls(
            ops=ops,
            inputs=tuple(inputs),
            outputs=tuple(held[output.offset] for output in program.outputs),
        )

    def scales(self, program: Program) -> list[float]:
        """Of each value, so that the network computes the same.

        The input's and the outputs' are their own; through additions and max pools one follows from
        another; elsewhere weights can take in any ratio, and it is 1.
        """
        links: dict[int, list[tuple[int, float]]] = defaultdict(list)
        for step, (op, inputs) in enumerate(zip(self.ops, self.inputs, strict=True)):
            if op.kind is OpKind.MAX_POOL or len(inputs) > 1:
                for value, (_, steps) in zip(inputs, _terms(op), strict=True):
                    links[step + 1].append((value, steps))
                    links[value].append((step + 1, 1 / steps))
        found = {0: program.input_quantiser.scale}
        for value, output in zip(self.outputs, program.outputs, strict=True):
            found[value] = output.quantiser.scale
        for start in (*found, *range(len(self.ops) + 1)):
            found.setdefault(start, 1.0)
            waiting = [start]
            while waiting:
                here = waiting.pop()
                for other, ratio in links[here]:
                    if other not in found:
                        found[other] = found[here] * ratio
                        waiting.append(other)
        return [found[value] for value in range(len(self.ops) + 1)]


def _terms(op: Op) -> list[tuple[int, float]]:
    """Where an operation reads, and how many of its output's steps one step there is, weights
    apart. An addition that scales one of its two to nothing reads the other one alone."""
    if op.kind is not OpKind.ADDITION:
        return [(op.src, 1.0)]
    pairs = (op.src, op.m1), (op.src2, op.m2)
    return [(place, factor / 2.0**op.shift) for place, factor in pairs if factor]
