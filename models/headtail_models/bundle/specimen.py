"""A tiny bundle that is real in every respect, for tests of whatever uses bundles.

    picture (3, 16, 16) -> conv, relu -> conv, relu -> average -> linear -> logits (3,)
                                    ^ early       ^ late

The gated specimen has one more cut, with a filter, an exit, a bottleneck and two coders:

    picture -> early -> filter -> late -> exit -> code (6, 8, 8) -> pairs again -> ... -> logits
                        ^ how bright              ^ means of pairs of channels

Both gates go by brightness, for the network has no biases: it filters pictures that are darker than
a thirteenth of white, and answers at the exit those that are brighter than about a third, if they
are of one colour.

The weights are drawn with a fixed seed, so a specimen's bytes and its digest are always the same.
"""

import itertools
import tempfile
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np
from msgspec.structs import replace

from headtail_fabric.codec.base import Array
from headtail_fabric.errors import ConfigError
from headtail_fabric.rans import Alphabet, CodingModel
from headtail_fabric.rans.frequencies import TOTAL, FrequencyTables
from headtail_fabric.rans.table_context import (
    ACTIVITY_BINS,
    REFERENCES,
    TAPS,
    VALUE_BINS,
    TableContext,
)
from headtail_models.bundle.keys import SecretKey
from headtail_models.bundle.manifest import (
    SCHEMA,
    ClassifyTask,
    Coder,
    Cut,
    Exit,
    Filter,
    Manifest,
    Measured,
    OperatingPoint,
    Preprocess,
    Provenance,
    QuantiserTable,
    Segment,
    StageEntry,
)
from headtail_models.bundle.writer import write_bundle
from headtail_models.stage import OnnxStage
from headtail_models.tensor import TensorSpec

try:
    import onnx
    from onnx import TensorProto, helper
except ImportError as missing:
    raise ConfigError(f"the specimen needs {missing.name}: pip install 'headtail[build]'") from None

OPSET: Final = 17
IR_VERSION: Final = 8
SIDE: Final = 16
LABELS: Final = ("left", "right", "neither")
WEIGHTS: Final = "weights.bin"

_SHAPES: Final = {
    "picture": (3, SIDE, SIDE),
    "early": (8, SIDE, SIDE),
    "late": (12, SIDE // 2, SIDE // 2),
    "logits": (len(LABELS),),
    "presence": (2,),
    "guess": (len(LABELS),),
    "code": (6, SIDE // 2, SIDE // 2),
    "again": (12, SIDE // 2, SIDE // 2),
}
_DRAWN: Final = {"w1": (8, 3, 3, 3), "w2": (12, 8, 3, 3), "w3": (len(LABELS), 12)}
_PAIRS: Final = np.kron(np.eye(6), np.ones((1, 2))).astype("<f4")
_MADE: Final = {
    "w4": np.stack([np.zeros(8), np.full(8, 25)]).astype("<f4"),
    "b4": np.array([1, 0], dtype="<f4"),
    "w5": (_PAIRS / 2).reshape(6, 12, 1, 1),
    "w6": np.ascontiguousarray(_PAIRS.T).reshape(12, 6, 1, 1),
}
"""The gated specimen's further weights."""
_GUESS_GAIN: Final = 40.0
_CODER_FILE: Final = "code.rans"
_COARSE_FILE: Final = "code-coarse.rans"
_CODECS: Final = ("raw", "raw+zstd", "q8", "q8+zstd", "q4", "q4+zstd")


def write_specimen(
    target: Path, *, key: SecretKey | None = None, version: str = "1.0", gated: bool = False
) -> Path:
    """Write the bundle `specimen` into the new folder `target`. Raises what `write_bundle` does."""
    with tempfile.TemporaryDirectory() as folder:
        manifest = write_stages(Path(folder), version=version, gated=gated)
        return write_bundle(Path(folder), manifest, target, key=key)


def write_stages(folder: Path, *, version: str = "1.0", gated: bool = False) -> Manifest:
    """Write the specimen's stages and weights into `folder`; its manifest, `files` still empty."""
    writer = _Writer(folder, gated=gated)
    manifest = Manifest(
        schema=SCHEMA,
        name="specimen",
        version=version,
        description="A tiny classifier with random weights, for tests",
        task=ClassifyTask(output="logits"),
        labels=LABELS,
        preprocess=Preprocess(kind="centre-crop", width=SIDE, height=SIDE, resize=SIDE),
        full=writer.stage("full", "picture", "early", "late", "logits"),
        cuts=(
            _cut(writer, "early", before=("picture",), after=("late", "logits"), until="late"),
            _cut(writer, "late", before=("picture", "early"), after=("logits",)),
        ),
        default_cut="late",
        default_codec="q8+zstd",
        metric="top-1",
        metric_split="none: the numbers are made up",
        full_value=0.75,
        provenance=(Provenance(source="random numbers", licence="CC0-1.0", sha256="0" * 64),),
        files=(),
    )
    if not gated:
        return manifest
    return replace(
        manifest,
        name="gated-specimen",
        cuts=(*manifest.cuts, _gated_cut(writer)),
        default_cut="code",
        default_codec="rans",
    )


def _cut(
    writer: "_Writer",
    name: str,
    *,
    before: Sequence[str],
    after: Sequence[str],
    until: str | None = None,
) -> Cut:
    segment = None
    if until is not None:
        stage = writer.stage(f"segment-{name}", name, *after[: after.index(until) + 1])
        segment = Segment(until=until, stage=stage)
    head = writer.stage(f"head-{name}", *before, name)
    tail = writer.stage(f"tail-{name}", name, *after)
    seen = OnnxStage(writer.folder / head.file).run({"picture": noise(8, seed=1)})[name]
    table = _ranges(seen)
    return Cut(
        name=name,
        head=head,
        tail=tail,
        segment=segment,
        codecs=_CODECS,
        quantisers={"q8": table, "q4": table},
        measured=(Measured(codec="q8+zstd", value=0.74, drop=0.01, mean_bytes=700.5),),
    )


def _gated_cut(writer: "_Writer") -> Cut:
    for file, alphabet in (
        (_CODER_FILE, Alphabet(low=0, count=32)),
        (_COARSE_FILE, Alphabet(low=0, count=16)),
    ):
        (writer.folder / file).write_bytes(_coding_model(6, alphabet).to_bytes())
    presence = Filter(
        name="presence",
        trunk=writer.stage("trunk-presence", "picture", "early"),
        branch=writer.stage("branch-presence", "early", "presence"),
        threshold=0.4,
        recall=0.99,
        dropped=0.2,
    )
    guess = Exit(
        name="guess",
        trunk=writer.stage("trunk-guess", "early", "late"),
        branch=writer.stage("branch-guess", "late", "guess"),
        temperature=1.0,
        criterion="max-probability",
        points=(
            OperatingPoint(name="eager", threshold=0.6, coverage=0.7, drop=0.03),
            OperatingPoint(name="careful", threshold=0.9, coverage=0.4, drop=0.01),
            OperatingPoint(name="closed", threshold=2.0, coverage=0.0, drop=0.0),
        ),
        default_point="careful",
    )
    return Cut(
        name="code",
        gates=(presence, guess),
        head=writer.stage("head-code", "late", "code"),
        tail=writer.stage("tail-code", "code", "again", "logits"),
        codecs=("raw", "rans", "rans-coarse"),
        quantisers={"rans-coarse": QuantiserTable(low=(0.0,) * 6, high=(3.0,) * 6)},
        coders={
            "rans": Coder(file=_CODER_FILE, steps=(0.0625,)),
            "rans-coarse": Coder(file=_COARSE_FILE, bits=4),
        },
        measured=(Measured(codec="rans", value=0.73, drop=0.02, mean_bytes=90.5),),
    )


def _coding_model(channels: int, alphabet: Alphabet) -> CodingModel:
    """One table for all, that expects small levels."""
    weights = [max(1, TOTAL >> at + 2) for at in range(alphabet.symbols)]
    weights[0] += TOTAL - sum(weights)
    return CodingModel(
        alphabet=alphabet,
        context=TableContext(
            centres=np.zeros(channels, dtype=np.int16),
            references=np.full((channels, REFERENCES), -1, dtype=np.int16),
            weights=np.zeros((channels, 2, TAPS), dtype=np.int16),
            biases=np.zeros((channels, 2), dtype=np.int32),
            cells=np.zeros((channels, ACTIVITY_BINS, VALUE_BINS), dtype=np.uint8),
        ),
        tables=FrequencyTables(np.array([weights], dtype=np.uint16)),
    )


class _Writer:
    """Writes stages into a folder, beside the weights that they share."""

    def __init__(self, folder: Path, *, gated: bool) -> None:
        self.folder = folder
        draw = np.random.default_rng(20)
        weights = {
            name: draw.normal(scale=0.3, size=shape).astype("<f4") for name, shape in _DRAWN.items()
        } | (_MADE if gated else {})
        self._parameters: dict[str, Any] = {}
        with (folder / WEIGHTS).open("wb") as file:
            for name, values in weights.items():
                self._parameters[name] = _parameter(name, values.shape, file.tell())
                file.write(values.tobytes())

    def stage(self, name: str, *borders: str) -> StageEntry:
        """What leads from the first border over the others to the last."""
        sections = [_SECTIONS[step] for step in itertools.pairwise(borders)]
        nodes = [node for layer, _ in sections for node in layer]
        used = {source for node in nodes for source in node.input}
        start, end = borders[0], borders[-1]
        graph = helper.make_graph(
            nodes,
            name,
            [_border(start)],
            [_border(end)],
            [self._parameters[key] for key in self._parameters if key in used],
        )
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION
        )
        file = f"{name}.onnx"
        (self.folder / file).write_bytes(model.SerializeToString(deterministic=True))
        onnx.checker.check_model(str(self.folder / file))
        return StageEntry(
            file=file,
            inputs=(_spec(start),),
            outputs=(_spec(end),),
            macs=sum(macs for _, macs in sections),
        )


def _classified(
    source: str, end: str, weights: Sequence[str], *, gain: float | None = None
) -> list[Any]:
    node = helper.make_node
    return [
        node("GlobalAveragePool", [source], ["mean"]),
        node("Flatten", ["mean"], ["flat"]),
        node("Gemm", ["flat", *weights], [end], transB=1, alpha=gain),
    ]


_PLACES: Final = (SIDE // 2) ** 2
_SECTIONS: Final[Mapping[tuple[str, str], tuple[Sequence[Any], int]]] = {
    ("picture", "early"): (
        [
            helper.make_node("Conv", ["picture", "w1"], ["sum1"], pads=[1] * 4),
            helper.make_node("Relu", ["sum1"], ["early"]),
        ],
        8 * 3 * 9 * SIDE**2,
    ),
    ("early", "late"): (
        [
            helper.make_node("Conv", ["early", "w2"], ["sum2"], pads=[1] * 4, strides=[2, 2]),
            helper.make_node("Relu", ["sum2"], ["late"]),
        ],
        12 * 8 * 9 * _PLACES,
    ),
    ("late", "logits"): (_classified("late", "logits", ["w3"]), 12 * len(LABELS)),
    ("early", "presence"): (_classified("early", "presence", ["w4", "b4"]), 8 * 2),
    ("late", "guess"): (
        _classified("late", "guess", ["w3"], gain=_GUESS_GAIN),
        12 * len(LABELS),
    ),
    ("late", "code"): ([helper.make_node("Conv", ["late", "w5"], ["code"])], 72 * _PLACES),
    ("code", "again"): ([helper.make_node("Conv", ["code", "w6"], ["again"])], 72 * _PLACES),
    ("again", "logits"): (_classified("again", "logits", ["w3"]), 12 * len(LABELS)),
}
"""Nodes and multiply-adds between one border and the next."""


def _border(name: str) -> Any:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", *_SHAPES[name]])


def _spec(name: str) -> TensorSpec:
    return TensorSpec(name=name, dtype="float32", shape=_SHAPES[name])


def _parameter(name: str, shape: tuple[int, ...], offset: int) -> Any:
    place = {"location": WEIGHTS, "offset": offset, "length": 4 * prod(shape)}
    tensor = TensorProto(name=name, dims=shape, data_type=TensorProto.FLOAT)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in place.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def noise(batch: int, *, seed: int) -> Array:
    """Pictures (batch, 3, 16, 16) that the specimen can be run on."""
    return np.random.default_rng(seed).random((batch, 3, SIDE, SIDE), dtype=np.float32)


def _ranges(tensor: Array) -> QuantiserTable:
    # Rounded outwards to hundredths, so that no machine's arithmetic shows in the digest.
    low = np.floor(tensor.min(axis=(0, 2, 3)) * 100) / 100
    high = np.ceil(tensor.max(axis=(0, 2, 3)) * 100) / 100
    return QuantiserTable(low=tuple(low.tolist()), high=tuple(high.tolist()))
