"""A bundle that hears whether it is loud, and sounds for it; or that takes readings instead."""

import struct
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from headtail_models.bundle import write_bundle
from headtail_models.bundle.manifest import (
    Cut,
    LogMel,
    Manifest,
    Preparation,
    Signal,
    StageEntry,
    TagTask,
    TensorSpec,
)

RATE = 16_000
PATCH_HOP = 48


def write_sound(path: Path, samples: NDArray[np.float64], *, rate: int = RATE) -> Path:
    """Mono, 16 bits."""
    body = (np.clip(samples, -1, 1) * 32_767).astype("<i2").tobytes()
    form = struct.pack("<HHIIHH", 1, 1, rate, 2 * rate, 2, 16)
    chunks = b"fmt " + struct.pack("<I", 16) + form + b"data" + struct.pack("<I", len(body)) + body
    path.write_bytes(b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks)
    return path


def tiny_signal() -> Signal:
    """Readings that fill what the tiny bundle takes."""
    return Signal(rate_hz=100, window=96, hop=48, offset=(0.0,) * 64, scale=(1.0,) * 64)


def tiny_sound_bundle(folder: Path, *, preprocess: Preparation | None = None) -> Path:
    """Tags `loud` or `quiet` by the mean of the spectra; `middle` is where it can be cut."""
    source = folder / "stages"
    source.mkdir()
    specs = {
        "x": TensorSpec(name="x", dtype="float32", shape=(1, 96, 64)),
        "middle": TensorSpec(name="middle", dtype="float32", shape=(1, 48, 32)),
        "logits": TensorSpec(name="logits", dtype="float32", shape=(2,)),
    }
    pool = helper.make_node("AveragePool", ["x"], ["middle"], kernel_shape=[2, 2], strides=[2, 2])
    rest = [
        helper.make_node("GlobalAveragePool", ["middle"], ["mean"]),
        helper.make_node("Flatten", ["mean"], ["flat"]),
        helper.make_node("Gemm", ["flat", "w", "b"], ["logits"]),
    ]
    inits = [
        numpy_helper.from_array(np.array([[4, -4]], dtype=np.float32), "w"),
        numpy_helper.from_array(np.array([12, -12], dtype=np.float32), "b"),
    ]
    made = {
        "head.onnx": ([pool], "x", "middle", []),
        "tail.onnx": (rest, "middle", "logits", inits),
        "full.onnx": ([pool, *rest], "x", "logits", inits),
    }
    stages = {}
    for file, (nodes, entry, leaving, constants) in made.items():
        graph = helper.make_graph(nodes, "tiny", [_value(specs[entry])], [_value(specs[leaving])])
        graph.initializer.extend(constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.save_model(model, str(source / file))
        stages[file] = StageEntry(
            file=file, inputs=(specs[entry],), outputs=(specs[leaving],), macs=10
        )
    manifest = Manifest(
        schema=1,
        name="tiny-sound",
        version="1.0",
        task=TagTask(output="logits"),
        labels=("loud", "quiet"),
        preprocess=preprocess or LogMel(patch_hop=PATCH_HOP),
        full=stages["full.onnx"],
        cuts=(
            Cut(
                name="middle",
                head=stages["head.onnx"],
                tail=stages["tail.onnx"],
                codecs=("raw",),
            ),
        ),
        default_cut="middle",
        default_codec="raw",
        files=(),
    )
    return write_bundle(source, manifest, folder / "tiny-sound")


def _value(spec: TensorSpec) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(spec.name, TensorProto.FLOAT, ["N", *spec.shape])
