"""A tiny bundle that is real in every respect, for tests of whatever uses bundles.

    picture (3, 16, 16) -> conv, relu -> conv, relu -> average -> linear -> logits (3,)
                                    ^ early       ^ late

Its weights are drawn with a fixed seed, so its bytes and its digest are always the same.
"""

import tempfile
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np

from headtail_fabric.codec.base import Array
from headtail_fabric.errors import ConfigError
from headtail_models.bundle.keys import SecretKey
from headtail_models.bundle.manifest import (
    SCHEMA,
    ClassifyTask,
    Cut,
    Manifest,
    Measured,
    Preprocess,
    Provenance,
    QuantiserTable,
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

_BORDERS: Final = ("picture", "early", "late", "logits")
_SHAPES: Final = {
    "picture": (3, SIDE, SIDE),
    "early": (8, SIDE, SIDE),
    "late": (12, SIDE // 2, SIDE // 2),
    "logits": (len(LABELS),),
}
_PARAMETERS: Final = {"w1": (8, 3, 3, 3), "w2": (12, 8, 3, 3), "w3": (len(LABELS), 12)}
_MACS: Final = (8 * 3 * 9 * SIDE**2, 12 * 8 * 9 * (SIDE // 2) ** 2, 12 * len(LABELS))
"""Between one border and the next."""
_CODECS: Final = ("raw", "raw+zstd", "q8", "q8+zstd", "q4", "q4+zstd")


def write_specimen(target: Path, *, key: SecretKey | None = None, version: str = "1.0") -> Path:
    """Write the bundle `specimen` into the new folder `target`. Raises what `write_bundle` does."""
    with tempfile.TemporaryDirectory() as folder:
        return write_bundle(
            Path(folder), write_stages(Path(folder), version=version), target, key=key
        )


def write_stages(folder: Path, *, version: str = "1.0") -> Manifest:
    """Write the specimen's stages and weights into `folder`; its manifest, `files` still empty."""
    offsets = _write_weights(folder / WEIGHTS)
    full = _write_stage(folder, "full", "picture", "logits", offsets)
    return Manifest(
        schema=SCHEMA,
        name="specimen",
        version=version,
        description="A tiny classifier with random weights, for tests",
        task=ClassifyTask(output="logits"),
        labels=LABELS,
        preprocess=Preprocess(kind="centre-crop", width=SIDE, height=SIDE, resize=SIDE),
        full=full,
        cuts=tuple(_cut(folder, name, offsets) for name in ("early", "late")),
        default_cut="late",
        default_codec="q8+zstd",
        metric="top-1",
        metric_split="none: the numbers are made up",
        full_value=0.75,
        provenance=(Provenance(source="random numbers", licence="CC0-1.0", sha256="0" * 64),),
        files=(),
    )


def _write_weights(path: Path) -> dict[str, int]:
    draw = np.random.default_rng(20)
    offsets = {}
    with path.open("wb") as file:
        for name, shape in _PARAMETERS.items():
            offsets[name] = file.tell()
            file.write(draw.normal(scale=0.3, size=shape).astype("<f4").tobytes())
    return offsets


def _cut(folder: Path, name: str, offsets: Mapping[str, int]) -> Cut:
    head = _write_stage(folder, f"head-{name}", "picture", name, offsets)
    tail = _write_stage(folder, f"tail-{name}", name, "logits", offsets)
    table = _ranges(OnnxStage(folder / head.file).run({"picture": noise(8, seed=1)})[name])
    return Cut(
        name=name,
        head=head,
        tail=tail,
        codecs=_CODECS,
        quantisers={"q8": table, "q4": table},
        measured=(Measured(codec="q8+zstd", value=0.74, drop=0.01, mean_bytes=700.5),),
    )


def _write_stage(
    folder: Path, name: str, start: str, end: str, offsets: Mapping[str, int]
) -> StageEntry:
    first, last = _BORDERS.index(start), _BORDERS.index(end)
    nodes = [node for layer in _layers()[first:last] for node in layer]
    used = {source for node in nodes for source in node.input}
    graph = helper.make_graph(
        nodes,
        name,
        [_border(start)],
        [_border(end)],
        [_parameter(key, offsets[key]) for key in _PARAMETERS if key in used],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION
    )
    file = f"{name}.onnx"
    (folder / file).write_bytes(model.SerializeToString(deterministic=True))
    onnx.checker.check_model(str(folder / file))
    return StageEntry(
        file=file, inputs=(_spec(start),), outputs=(_spec(end),), macs=sum(_MACS[first:last])
    )


def _layers() -> tuple[tuple[Any, ...], ...]:
    node = helper.make_node
    return (
        (
            node("Conv", ["picture", "w1"], ["sum1"], pads=[1] * 4),
            node("Relu", ["sum1"], ["early"]),
        ),
        (
            node("Conv", ["early", "w2"], ["sum2"], pads=[1] * 4, strides=[2, 2]),
            node("Relu", ["sum2"], ["late"]),
        ),
        (
            node("GlobalAveragePool", ["late"], ["mean"]),
            node("Flatten", ["mean"], ["flat"]),
            node("Gemm", ["flat", "w3"], ["logits"], transB=1),
        ),
    )


def _border(name: str) -> Any:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", *_SHAPES[name]])


def _spec(name: str) -> TensorSpec:
    return TensorSpec(name=name, dtype="float32", shape=_SHAPES[name])


def _parameter(name: str, offset: int) -> Any:
    shape = _PARAMETERS[name]
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
