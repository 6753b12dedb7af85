"""A head in floating point to the blob that a board runs."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from headtail_models.bundle.manifest import Preparation
from headtail_models.mcu.blob import MAX_OPS, MAX_OUTPUTS, data_offset, read_blob, write_blob
from headtail_models.mcu.errors import DoesNotFitError, McuError
from headtail_models.mcu.fronts import make_front
from headtail_models.mcu.layers import Floats, HeadGraph
from headtail_models.mcu.placing import place
from headtail_models.mcu.program import (
    EXPONENTIALS,
    Criterion,
    Exit,
    Op,
    Output,
    Program,
    Role,
    golden_input,
)
from headtail_models.mcu.quantise import lower, settled
from headtail_models.mcu.ranges import Quantiser, calibrate
from headtail_models.mcu.twin import Twin

BITS: Final = (8, 4, 2)
_SEEDS: Final = range(1, 9)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitWish:
    """An early exit on the output named, whose logits it takes where they are sure enough."""

    output: str
    threshold: float
    temperature: float = 1.0
    criterion: Criterion = Criterion.MAX_PROBABILITY


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Exported:
    """`names` of the layers that the program's operations came from, in their order."""

    program: Program
    names: tuple[str, ...]


def export_head(
    graph: HeadGraph,
    samples: Floats,
    *,
    bits: int = 8,
    exit: ExitWish | None = None,
    logits: Sequence[str] = (),
    ranges: Mapping[str, Quantiser] | None = None,
    preparation: Preparation | None = None,
) -> Exported:
    """Quantise on `samples` (N, h, w, c), place, and record the golden vector.

    Outputs are features of `bits` bits a value, but for the exit's and those named in `logits`,
    which have 8. `ranges` name the quantisers of tensors that somebody else has fixed;
    `preparation` gives the head a front end. Raises CalibrationError, OutOfRangeError,
    UnsupportedLayerError, FrontEndError, McuError.
    """
    _check_names(graph, exit, logits)
    early = 0
    if exit is not None:
        graph, early = graph.ordered_for(exit.output)
    answers = {*logits, exit.output} if exit else set(logits)
    widths = {name: bits for name in graph.outputs if name not in answers}
    quantisers = settled(graph, calibrate(graph, samples, bits=widths) | dict(ranges or {}))
    lowered = lower(graph, quantisers)
    packs = sum(quantisers[name].bits < 8 for name in graph.outputs)
    _check_counts(len(lowered) + packs, len(graph.outputs))
    placement = place(
        graph,
        lowered,
        quantisers,
        data_offset=data_offset(
            ops=len(lowered) + packs, outputs=len(graph.outputs), has_exit=exit is not None
        ),
    )
    outputs = tuple(
        _output(graph, name, answers, quantisers[name], placement.offsets[name])
        for name in graph.outputs
    )
    program = _golden(
        placement.ops,
        arena=placement.arena,
        input_shape=graph.input_shape,
        input_offset=placement.offsets[graph.input],
        input_quantiser=quantisers[graph.input],
        outputs=outputs,
        exit=_exit(exit, graph, quantisers, early),
        data=placement.data,
        front=make_front(preparation, quantisers[graph.input]) if preparation else b"",
    )
    return Exported(
        program=program,
        names=(*(layer.name for layer in graph.layers), *["pack"] * packs),
    )


def _check_names(graph: HeadGraph, exit: ExitWish | None, logits: Sequence[str]) -> None:
    for name in (*logits, *((exit.output,) if exit else ())):
        if name not in graph.outputs:
            raise McuError(f"no output {name!r}; the model has {', '.join(graph.outputs)}")
    classes = graph.outputs[exit.output].size if exit is not None else 0
    if exit is not None and classes > EXPONENTIALS:
        raise DoesNotFitError(
            f"exit {exit.output!r} has {classes} classes, {classes - EXPONENTIALS} more than "
            f"{EXPONENTIALS}"
        )


def _check_counts(ops: int, outputs: int) -> None:
    for count, most, what in ((ops, MAX_OPS, "operations"), (outputs, MAX_OUTPUTS, "outputs")):
        if count > most:
            raise DoesNotFitError(f"the head has {count} {what}, {count - most} more than {most}")


def _output(
    graph: HeadGraph, name: str, answers: set[str], quantiser: Quantiser, offset: int
) -> Output:
    shape = graph.outputs[name]
    return Output(
        role=Role.LOGITS if name in answers else Role.FEATURES,
        shape=shape,
        offset=offset,
        size=-(-shape.size * quantiser.bits // 8),
        quantiser=quantiser,
    )


def _exit(
    wish: ExitWish | None, graph: HeadGraph, quantisers: dict[str, Quantiser], ops: int
) -> Exit | None:
    if wish is None:
        return None
    return Exit.at(
        ops=ops,
        output=list(graph.outputs).index(wish.output),
        scale=quantisers[wish.output].scale,
        temperature=wish.temperature,
        criterion=wish.criterion,
        threshold=wish.threshold,
    )


def _golden(ops: Sequence[Op], **rest: Any) -> Program:
    """With the seed whose noise leaves the fewest operations with one value everywhere."""
    silent = read_blob(write_blob(ops=ops, seed=1, **rest))
    twin, size = Twin(silent), silent.input_shape.size

    def trace(seed: int) -> list[bytes]:
        noise = np.frombuffer(golden_input(seed, size), dtype=np.uint8)
        return twin.trace(noise.reshape(silent.input_shape))

    def mute(left: Sequence[bytes]) -> int:
        return sum(len(set(values)) == 1 for values in left)

    traces = {seed: trace(seed) for seed in _SEEDS}
    seed = min(traces, key=lambda s: mute(traces[s]))
    checked = [
        replace(op, crc=zlib.crc32(left)) for op, left in zip(ops, traces[seed], strict=True)
    ]
    return read_blob(write_blob(ops=checked, seed=seed, **rest))
