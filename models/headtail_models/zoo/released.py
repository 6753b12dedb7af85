"""Trained parts that Headtail is released with, joined to the pretrained network around them.

    released/<bundle>/<cut>.json      a `ReleasedCut`
    released/<bundle>/...             the files that it names

What is trained here is small and lies in the package; what comes before and after it is fetched
and written by the recipe of the bundle. A part's tail leads to a tensor where the network goes on.
"""

import shutil
from collections.abc import Iterator
from importlib.resources import as_file, files
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from headtail_models.bundle.manifest import Cut, Measured, Segment, StageEntry
from headtail_models.zoo.errors import MissingExtraError

try:
    import onnx
    from onnx import compose, external_data_helper, helper
except ImportError as missing:
    raise MissingExtraError(
        f"building a bundle needs {missing.name}: pip install 'headtail[build]'"
    ) from None

_FOLDER: Final = "released"
_SMALL_BYTES: Final = 1024
"""What is smaller stays in the graph."""


class ReleasedCut(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A cut whose head begins at the cut `after` of the network, and whose tail ends at `before`.

    The first gate's trunk is the head of `after`; a cut without gates gets it joined to its head.
    """

    after: str
    before: str
    cut: Cut


def released_cuts(bundle: str) -> Iterator[ReleasedCut]:
    """Those of a bundle, by name."""
    folder = files(__package__).joinpath(_FOLDER, bundle)
    if not folder.is_dir():
        return
    for item in sorted(folder.iterdir(), key=lambda item: item.name):
        if item.name.endswith(".json"):
            yield msgspec.json.decode(item.read_bytes(), type=ReleasedCut)


def write_released(
    bundle: str,
    part: ReleasedCut,
    folder: Path,
    *,
    before: StageEntry,
    after: StageEntry,
    measured: tuple[Measured, ...],
) -> Cut:
    """Copy the files of a part into `folder` and join its ends to the stages there.

    `before` is the stage that ends where the part begins, `after` the tail that goes on. The way to
    where it does is a stage, too; what was trained of it lies in a file that both share.
    """
    cut = part.cut
    named = [coder.file for coder in cut.coders.values()]
    gates = tuple(
        replace(gate, trunk=before) if index == 0 else gate for index, gate in enumerate(cut.gates)
    )
    named += [gate.branch.file for gate in gates]
    named += [gate.trunk.file for gate in gates[1:] if gate.trunk is not None]
    with as_file(files(__package__).joinpath(_FOLDER, bundle)) as source:
        for name in named:
            shutil.copyfile(source / name, folder / name)
        head = cut.head
        if gates:
            shutil.copyfile(source / head.file, folder / head.file)
        else:
            head = _joined(
                folder / head.file, folder / before.file, before, source / head.file, head
            )
        segment = Segment(until=part.before, stage=_segment(cut, source, folder))
    tail = _joined(
        folder / cut.tail.file,
        folder / segment.stage.file,
        segment.stage,
        folder / after.file,
        after,
    )
    return replace(cut, gates=gates, head=head, tail=tail, segment=segment, measured=measured)


def _segment(cut: Cut, source: Path, folder: Path) -> StageEntry:
    """The trained beginning of the tail as a stage, its weights in a file beside it."""
    stage = onnx.load(source / cut.tail.file)
    weights = Path(cut.tail.file).with_suffix(".bin").name
    external_data_helper.convert_model_to_external_data(
        stage, location=weights, size_threshold=_SMALL_BYTES
    )
    name = f"segment-{cut.name}.onnx"
    onnx.save_model(stage, folder / name)
    return replace(cut.tail, file=name)


def _joined(
    path: Path, first_path: Path, first: StageEntry, second_path: Path, second: StageEntry
) -> StageEntry:
    """Both stages as one file; the first's output is the second's input. Weights that lie outside
    stay where they are."""
    one = onnx.load(first_path, load_external_data=False)
    two = onnx.load(second_path, load_external_data=False)
    graph = compose.merge_graphs(
        one.graph, two.graph, [(first.outputs[0].name, second.inputs[0].name)]
    )
    graph.name = path.stem
    model = helper.make_model(
        graph,
        opset_imports=one.opset_import,
        ir_version=one.ir_version,
        producer_name="headtail",
    )
    path.write_bytes(model.SerializeToString(deterministic=True))
    return StageEntry(
        file=path.name,
        inputs=first.inputs,
        outputs=second.outputs,
        macs=first.macs + second.macs,
    )
