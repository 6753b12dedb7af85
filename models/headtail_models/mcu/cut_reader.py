"""A cut of a bundle as a head for a board: its segments joined, its exit, its code, its front end.

trunk -> branch -> logits        the cut's one gate, an exit
      \\-> head -> code           in levels that the cut's quantiser table fixes
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Final

import msgspec
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
RANGES: Final = "ranges.json"
"""The file of a bundle whose head was trained with its ranges: a scale and a zero for the input and
for what each layer leaves, in the order of the joined graph."""


class _Range(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    scale: Annotated[float, msgspec.Meta(gt=0, lt=1e30)]
    zero: Annotated[int, msgspec.Meta(ge=0, le=255)]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CutHead:
    """What `export_head` wants to know. `ranges` fix the quantiser of the code, and those of all
    tensors where the bundle brings them."""

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
    graph = joined(trunk, parts)
    return CutHead(
        graph=graph,
        bits=bits,
        exit=wish,
        ranges={**_own_ranges(bundle.path / RANGES, graph), code: _shared(table, cut, bits)},
        preparation=bundle.manifest.preprocess,
    )


def write_ranges(path: Path, quantisers: Sequence[Quantiser]) -> None:
    """What `read_cut` finds in a bundle: those of the input and of what each layer leaves."""
    ranges = [_Range(scale=one.scale, zero=one.zero) for one in quantisers]
    path.write_bytes(msgspec.json.format(msgspec.json.encode(ranges), indent=1) + b"\n")


def _own_ranges(path: Path, graph: HeadGraph) -> dict[str, Quantiser]:
    if not path.exists():
        return {}
    names = (graph.input, *(layer.output for layer in graph.layers))
    try:
        ranges = msgspec.json.decode(path.read_bytes(), type=list[_Range])
    except msgspec.DecodeError as error:
        raise UnsupportedCutError(f"{path.name}: {error}") from None
    if len(ranges) != len(names):
        raise UnsupportedCutError(
            f"{path.name} has {len(ranges)} ranges, the head has {len(names)} tensors"
        )
    return {
        name: Quantiser(scale=one.scale, zero=one.zero)
        for name, one in zip(names, ranges, strict=True)
    }


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
