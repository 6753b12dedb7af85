"""Whether a cut fits its bundle: the chain of its stages, its codecs, its coders, its gates."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from headtail_fabric.codec import CodecError, Quantiser, codec_for
from headtail_fabric.rans.wavefront import four_axes
from headtail_fabric.wire import DType
from headtail_models.bundle.limits import MAX_CODER_BYTES
from headtail_models.bundle.manifest import (
    Coder,
    Cut,
    DetectTask,
    Exit,
    Gate,
    Manifest,
    TensorSpec,
)

OFF: Final = "off"
"""What turns exits off, so that no operating point may be called so."""


_ROUNDING: Final = 1e-3


def cut_problems(cut: Cut, manifest: Manifest) -> Iterator[str]:
    """Each contradiction, in words."""
    yield from _chain_problems(cut, manifest)
    yield from _gate_problems(cut, manifest)
    if len(cut.head.outputs) != 1:
        return  # told already; nothing is known of the tensor that crosses
    if not cut.codecs or len(set(cut.codecs)) < len(cut.codecs):
        yield "there is no codec, or one is there twice"
    quantisers: dict[str, Quantiser] = {}
    for base, table in cut.quantisers.items():
        try:
            quantisers[base] = table.quantiser()
        except ValueError as error:
            yield f"quantiser {base!r}: {error}"
            continue
        if quantisers[base].channels != cut.tensor.shape[0]:
            yield (
                f"quantiser {base!r} has {quantisers[base].channels} channels, "
                f"the tensor {cut.tensor.shape[0]}"
            )
    for codec_id in cut.codecs:
        if codec_id in cut.coders:
            continue
        base = codec_id.partition("+")[0]
        try:
            codec_for(
                codec_id, dtype=DType[cut.tensor.dtype.upper()], quantiser=quantisers.get(base)
            )
        except CodecError as error:
            yield f"codec {codec_id!r}: {error}"
    for codec_id, coder in cut.coders.items():
        for problem in _coder_problems(codec_id, coder, cut, manifest):
            yield f"coder {codec_id!r}: {problem}"


def _coder_problems(codec_id: str, coder: Coder, cut: Cut, manifest: Manifest) -> Iterator[str]:
    if codec_id not in cut.codecs:
        yield "it is not among the cut's codecs"
    size_bytes = {entry.path: entry.size_bytes for entry in manifest.files}.get(coder.file)
    if size_bytes is None:
        yield f"{coder.file!r} is not among the files"
    elif size_bytes > MAX_CODER_BYTES:
        yield f"{coder.file!r} has {size_bytes} bytes, more than {MAX_CODER_BYTES}"
    if cut.tensor.dtype != "float32":
        yield f"the tensor is {cut.tensor.dtype}, only float32 can be coded"
    try:
        four_axes((1, *cut.tensor.shape))
    except ValueError as error:
        yield str(error)
    if bool(coder.steps) == (coder.bits is not None):
        yield "it has neither steps nor bits, or both"
    elif coder.bits is not None:
        if codec_id not in cut.quantisers:
            yield f"there is no quantiser table {codec_id!r}"
    else:
        try:
            coder.scales(cut.tensor.shape[0])
        except ValueError as error:
            yield str(error)


def _chain_problems(cut: Cut, manifest: Manifest) -> Iterator[str]:
    """From the input through the gates and the head to the outputs, by names and shapes."""
    at, origin = _specs(manifest.full.inputs), "the full model's"
    for gate in cut.gates:
        if gate.trunk is not None:
            if _specs(gate.trunk.inputs) != at:
                yield f"the inputs of the trunk of gate {gate.name!r} are not {origin}"
            if len(gate.trunk.outputs) != 1:
                yield f"the trunk of gate {gate.name!r} has {len(gate.trunk.outputs)} outputs"
            at, origin = _specs(gate.trunk.outputs), f"what gate {gate.name!r} leaves"
        if _specs(gate.branch.inputs) != at:
            yield f"the inputs of the branch of gate {gate.name!r} are not {origin}"
    if _specs(cut.head.inputs) != at:
        yield f"the head's inputs are not {origin}"
    if _specs(cut.tail.outputs) != _specs(manifest.full.outputs):
        yield "the tail's outputs are not the full model's"
    if len(cut.head.outputs) != 1:
        yield f"{len(cut.head.outputs)} tensors cross, not one"
    elif _specs(cut.head.outputs) != _specs(cut.tail.inputs):
        yield "the head's output is not the tail's input"


def segment_problems(manifest: Manifest) -> Iterator[str]:
    """Whether each segment and the tail of the cut that it leads to make up the tail that it
    begins, by names, shapes and multiply-adds.

    It leads to a cut with a shorter tail, or one as long that is listed later: no circles.
    """
    places = {cut.name: (-cut.tail.macs, index) for index, cut in enumerate(manifest.cuts)}
    for cut in manifest.cuts:
        if cut.segment is None:
            continue
        stage, until = cut.segment.stage, cut.segment.until
        if until not in places:
            yield f"cut {cut.name!r}: its segment leads to {until!r}, which is no cut"
            continue
        other = manifest.cuts[places[until][1]]
        if places[until] <= places[cut.name]:
            yield f"cut {cut.name!r}: its segment does not lead on, but to {until!r}"
        if _specs(stage.inputs) != _specs(cut.tail.inputs):
            yield f"cut {cut.name!r}: its segment's inputs are not the tail's"
        if _specs(stage.outputs) != _specs(other.tail.inputs):
            yield f"cut {cut.name!r}: its segment's outputs are not the inputs of {until!r}'s tail"
        if stage.macs + other.tail.macs != cut.tail.macs:
            yield f"cut {cut.name!r}: its segment and {until!r}'s tail do not add up to its tail"


def _gate_problems(cut: Cut, manifest: Manifest) -> Iterator[str]:
    names = Counter(gate.name.casefold() for gate in cut.gates)
    yield from (f"gate {name!r} is there {n} times" for name, n in names.items() if n > 1)
    for gate in cut.gates:
        for problem in _branch_problems(gate, manifest):
            yield f"gate {gate.name!r}: {problem}"
    chosen = {
        (exit_.default_point, tuple(point.name for point in exit_.points)) for exit_ in cut.exits()
    }
    if len(chosen) > 1:
        yield "its exits have different operating points"
    for name in dict.fromkeys(point.name for exit_ in cut.exits() for point in exit_.points):
        points = [point for exit_ in cut.exits() if (point := exit_.point(name)) is not None]
        if sum(point.coverage for point in points) > 1 + _ROUNDING:
            yield f"at {name!r} more than all frames leave"


def _branch_problems(gate: Gate, manifest: Manifest) -> Iterator[str]:
    shapes = [tensor.shape for tensor in gate.branch.outputs]
    if len(shapes) != 1 or len(shapes[0]) != 1:
        yield f"the branch gives {[list(shape) for shape in shapes]}, not one row of logits"
        return
    if not isinstance(gate, Exit):
        if gate.logits != 2:
            yield f"{gate.logits} logits, a filter has two"
        return
    if isinstance(manifest.task, DetectTask):  # boxes come of no row of logits
        yield "a detector has no exits"
    classes = len(gate.classes) or len(manifest.labels)
    if gate.logits != classes + gate.goes_on or gate.logits < 2:
        more = " and to go on" if gate.goes_on else ""
        yield f"{gate.logits} logits for {classes} classes{more}"
    if len(set(gate.classes)) < len(gate.classes):
        yield "a class is there twice"
    if any(index >= len(manifest.labels) for index in gate.classes):
        yield f"class {max(gate.classes)} of {len(manifest.labels)} labels"
    yield from _point_problems(gate)


def _point_problems(gate: Exit) -> Iterator[str]:
    names = [point.name for point in gate.points]
    if gate.default_point not in names:
        yield f"the default point {gate.default_point!r} is not among its points"
    if len(set(names)) < len(names) or OFF in names:
        yield f"an operating point is there twice, or called {OFF!r}"
    thresholds = [point.threshold for point in gate.points]
    if thresholds != sorted(thresholds):
        yield "its operating points are not in the order of their thresholds"
    classes = gate.logits - gate.goes_on
    for point in gate.points:
        if point.threshold > 1 and point.coverage > 0:
            yield f"at {point.name!r} it is closed, yet covers {point.coverage}"
        if len(point.by_class) not in (0, classes):
            yield f"at {point.name!r} {len(point.by_class)} thresholds for {classes} classes"


def _specs(tensors: tuple[TensorSpec, ...]) -> dict[str, TensorSpec]:
    return {tensor.name: tensor for tensor in tensors}
