"""A cut of a bundle as a head for a board: its segments joined, its exit, its code, its front end.

trunk -> branch -> logits        the cut's one gate, an exit
      \\-> head -> code           in levels that the cut's quantiser table fixes
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from headtail_models.bundle import Bundle
from headtail_models.bundle.manifest import Cut, Exit, Preparation, QuantiserTable, StageEntry
from headtail_models.mcu.errors import UnsupportedCutError
from headtail_models.mcu.export import ExitWish
from headtail_models.mcu.layers import HeadGraph
from headtail_models.mcu.onnx_reader import read_head
from headtail_models.mcu.program import CRITERIA
from headtail_models.mcu.ranges import Quantiser

SAMPLES: Final = "calibration.npy"
"""The file of a bundle that ranges are found on, where it has one."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CutHead:
    """What `export_head` wants to know. `ranges` fix the quantiser of the code."""

    graph: HeadGraph
    bits: int
    exit: ExitWish | None
    ranges: Mapping[str, Quantiser]
    preparation: Preparation


def read_cut(bundle: Bundle, name: str, *, bits: int, point: str = "") -> CutHead:
    """`point`: the exit's operating point, empty for the bundle's default.

    Raises UnknownCutError, UnsupportedCutError, UnsupportedLayerError.
    """
    cut = bundle.cut(name)
    if len(cut.gates) > 1 or not all(isinstance(gate, Exit) for gate in cut.gates):
        raise UnsupportedCutError(f"cut {name!r} has {len(cut.gates)} gates; a board has one exit")
    codec = f"q{bits}-nhwc"
    table = cut.quantisers.get(codec)
    if codec not in cut.codecs or table is None:
        known = ", ".join(one for one in cut.codecs if one.endswith("-nhwc")) or "none"
        raise UnsupportedCutError(f"cut {name!r} can't be sent in {codec}; boards' codecs: {known}")
    parts = {}
    trunk: HeadGraph | None = None
    wish = None
    for gate in cut.exits():
        trunk = _graph(bundle, gate.trunk) if gate.trunk is not None else None
        logits = gate.branch.outputs[0].name
        parts[logits] = _graph(bundle, gate.branch)
        wish = _wish(gate, logits, point)
    code = cut.tensor.name
    parts[code] = _graph(bundle, cut.head)
    return CutHead(
        graph=joined(trunk, parts),
        bits=bits,
        exit=wish,
        ranges={code: _shared(table, cut, bits)},
        preparation=bundle.manifest.preprocess,
    )


def joined(trunk: HeadGraph | None, parts: Mapping[str, HeadGraph]) -> HeadGraph:
    """One graph of networks of one output that all begin where `trunk` ends, or at the same input.

    Outputs are called as in `parts`.
    """
    first = trunk if trunk is not None else next(iter(parts.values()))
    begin = next(iter(trunk.outputs)) if trunk is not None else first.input
    layers = list(trunk.layers) if trunk is not None else []
    outputs = {}
    for name, part in parts.items():
        (end,) = part.outputs
        known = {part.input: begin, end: name}
        for layer in part.layers:
            known.setdefault(layer.output, f"{name}/{layer.output}")
            layers.append(
                replace(
                    layer,
                    inputs=tuple(known[one] for one in layer.inputs),
                    output=known[layer.output],
                )
            )
        outputs[name] = part.outputs[end]
    return HeadGraph(
        input=first.input,
        input_shape=first.input_shape,
        layers=tuple(layers),
        outputs=outputs,
    )


def _graph(bundle: Bundle, stage: StageEntry) -> HeadGraph:
    return read_head(bundle.path / stage.file)


def _wish(gate: Exit, output: str, point: str) -> ExitWish:
    criterion = CRITERIA.get(gate.criterion)
    if criterion is None or gate.goes_on:
        raise UnsupportedCutError(
            f"exit {gate.name!r} decides by {gate.criterion}, boards by {', '.join(CRITERIA)}"
            if criterion is None
            else f"exit {gate.name!r} has a logit for going on, which boards have not"
        )
    chosen = gate.point(point or gate.default_point)
    if chosen is None:
        known = ", ".join(one.name for one in gate.points)
        raise UnsupportedCutError(f"exit {gate.name!r} has no point {point[:64]!r}, only {known}")
    if chosen.threshold > 1:
        raise UnsupportedCutError(
            f"exit {gate.name!r} is closed at {chosen.name!r}; name another point"
        )
    return ExitWish(
        output=output,
        threshold=chosen.threshold,
        temperature=gate.temperature,
        criterion=criterion,
    )


def _shared(table: QuantiserTable, cut: Cut, bits: int) -> Quantiser:
    low, high = set(table.low), set(table.high)
    if len(low) > 1 or len(high) > 1 or min(low) > 0 or max(high) <= min(low):
        raise UnsupportedCutError(
            f"cut {cut.name!r}: its channels have ranges of their own, or without 0; a board has "
            "one for all"
        )
    top = (1 << bits) - 1
    scale = float(np.float32((max(high) - min(low)) / top))
    return Quantiser(scale=scale, zero=round(-min(low) / scale), bits=bits)
