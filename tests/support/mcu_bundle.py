"""A head for a board and the bundle whose tail belongs to it, small and of random weights.

picture (3, 8, 8) -> conv, relu -> exit: average, linear -> logits (3,)
                                -> conv, relu -> features (4, 4, 4) -> average, linear -> logits
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from headtail_fabric.codec.base import Array
from headtail_models.bundle import Bundle, open_bundle
from headtail_models.bundle.codecs import packed_levels
from headtail_models.bundle.manifest import (
    SCHEMA,
    ClassifyTask,
    Cut,
    Manifest,
    Preprocess,
    StageEntry,
)
from headtail_models.bundle.writer import write_bundle
from headtail_models.mcu.export import ExitWish, export_head
from headtail_models.mcu.onnx_reader import read_head
from headtail_models.mcu.program import Program, Role
from headtail_models.tensor import TensorSpec

SIDE = 8
LABELS = ("left", "right", "neither")
_SHAPES = {"picture": (3, SIDE, SIDE), "features": (4, 4, 4), "logits": (3,), "exit": (3,)}


@dataclass(frozen=True, slots=True, kw_only=True)
class McuWorld:
    """`samples` (N, 8, 8, 3) real values; `crossing` names those that do not leave early."""

    program: Program
    bundle: Bundle
    samples: Array
    folder: Path

    @property
    def head(self) -> Path:
        return self.folder / "board.head"

    @property
    def head_id(self) -> int:
        return int.from_bytes(self.program.blob[-4:], "little")


def make_world(folder: Path, *, bits: int = 4, threshold: float = 0.45) -> McuWorld:
    """`board.head` and the bundle `bundle` in a new folder."""
    folder.mkdir(parents=True, exist_ok=True)
    stages = folder / "stages"
    stages.mkdir()
    head = _stage(stages, "head", "picture", "features")
    tail = _stage(stages, "tail", "features", "logits")
    full = _stage(stages, "full", "picture", "logits")
    _save(folder / "board.onnx", ["picture"], ["features", "exit"], _TRUNK + _EXIT + _FEATURES)
    samples = np.random.default_rng(3).random((24, SIDE, SIDE, 3), dtype=np.float32)
    samples *= np.linspace(0.1, 1, 24, dtype=np.float32)[:, None, None, None]
    wish = ExitWish(output="exit", threshold=threshold)
    program = export_head(read_head(folder / "board.onnx"), samples, bits=bits, exit=wish).program
    (folder / "board.head").write_bytes(program.blob)
    sent = next(output for output in program.outputs if output.role is Role.FEATURES)
    codec_id, table = packed_levels(
        bits=bits, scale=sent.quantiser.scale, zero=sent.quantiser.zero, channels=4
    )
    manifest = Manifest(
        schema=SCHEMA,
        name="board-specimen",
        version="1.0",
        task=ClassifyTask(output="logits"),
        labels=LABELS,
        preprocess=Preprocess(kind="centre-crop", width=SIDE, height=SIDE, resize=SIDE),
        full=full,
        cuts=(
            Cut(
                name="board",
                head=head,
                tail=tail,
                codecs=(codec_id,),
                quantisers={codec_id: table},
            ),
        ),
        default_cut="board",
        default_codec=codec_id,
        files=(),
    )
    bundle = open_bundle(write_bundle(stages, manifest, folder / "bundle"))
    return McuWorld(program=program, bundle=bundle, samples=samples, folder=folder)


def write_levels(world: McuWorld, path: Path) -> Path:
    """All samples as a board's `replay` app reads them."""
    levels = [world.program.input_quantiser.levels(sample) for sample in world.samples]
    path.write_bytes(b"".join(one.tobytes() for one in levels))
    return path


_DRAW = np.random.default_rng(11)
_WEIGHTS = {
    name: _DRAW.normal(scale=0.5, size=shape).astype(np.float32)
    for name, shape in {
        "w1": (8, 3, 3, 3),
        "w2": (4, 8, 1, 1),
        "w3": (3, 8),
        "w4": (3, 4),
    }.items()
}
_TRUNK = [
    helper.make_node("Conv", ["picture", "w1"], ["sum1"], pads=[1] * 4, strides=[2, 2]),
    helper.make_node("Relu", ["sum1"], ["trunk"]),
]
_EXIT = [
    helper.make_node("GlobalAveragePool", ["trunk"], ["mean1"]),
    helper.make_node("Flatten", ["mean1"], ["flat1"]),
    helper.make_node("Gemm", ["flat1", "w3"], ["exit"], transB=1),
]
_FEATURES = [
    helper.make_node("Conv", ["trunk", "w2"], ["sum2"]),
    helper.make_node("Relu", ["sum2"], ["features"]),
]
_TAIL = [
    helper.make_node("GlobalAveragePool", ["features"], ["mean2"]),
    helper.make_node("Flatten", ["mean2"], ["flat2"]),
    helper.make_node("Gemm", ["flat2", "w4"], ["logits"], transB=1),
]
_NODES = {
    ("picture", "features"): _TRUNK + _FEATURES,
    ("features", "logits"): _TAIL,
    ("picture", "logits"): _TRUNK + _FEATURES + _TAIL,
}


def _stage(folder: Path, name: str, start: str, end: str) -> StageEntry:
    _save(folder / f"{name}.onnx", [start], [end], _NODES[start, end])
    return StageEntry(file=f"{name}.onnx", inputs=(_spec(start),), outputs=(_spec(end),), macs=1000)


def _save(path: Path, inputs: list[str], outputs: list[str], nodes: list[Any]) -> None:
    used = {source for node in nodes for source in node.input}
    graph = helper.make_graph(
        nodes,
        path.stem,
        [_border(name) for name in inputs],
        [_border(name) for name in outputs],
        [numpy_helper.from_array(w, name) for name, w in _WEIGHTS.items() if name in used],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(path))


def _border(name: str) -> Any:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", *_SHAPES[name]])


def _spec(name: str) -> TensorSpec:
    return TensorSpec(name=name, dtype="float32", shape=_SHAPES[name])
