"""A device that decides, its edge, and a link between them that becomes bad: real processes."""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from headtail_models.bundle import write_bundle
from headtail_models.bundle.manifest import (
    ClassifyTask,
    Cut,
    Manifest,
    Preprocess,
    StageEntry,
)
from headtail_models.tensor import TensorSpec
from processes import PATIENCE_S, Headtail, records, write_clip

pytestmark = pytest.mark.system

SIDE = 256
GOOD_S = 8
FRAMES = 400
RATE_HZ = 25.0


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network whose cut sends 196,608 bytes: 31 ms over good Wi-Fi, 0.8 s over bad. By its
    manifest the device computes a thousandth of it when it sends."""
    folder = tmp_path_factory.mktemp("bundle")
    source = folder / "stages"
    source.mkdir()
    specs = {
        "x": TensorSpec(name="x", dtype="float32", shape=(3, SIDE, SIDE)),
        "middle": TensorSpec(name="middle", dtype="float32", shape=(3, SIDE // 2, SIDE // 2)),
        "logits": TensorSpec(name="logits", dtype="float32", shape=(2,)),
    }
    pool = helper.make_node("AveragePool", ["x"], ["middle"], kernel_shape=[2, 2], strides=[2, 2])
    rest = [
        helper.make_node("GlobalAveragePool", ["middle"], ["mean"]),
        helper.make_node("Flatten", ["mean"], ["flat"]),
        helper.make_node("Gemm", ["flat", "w"], ["logits"]),
    ]
    weights = [numpy_helper.from_array(np.ones((3, 2), dtype=np.float32), "w")]

    def stage(
        name: str, nodes: list[onnx.NodeProto], ends: tuple[str, str], macs: int
    ) -> StageEntry:
        values = [
            helper.make_tensor_value_info(end, TensorProto.FLOAT, ["N", *specs[end].shape])
            for end in ends
        ]
        inits = [one for one in weights if any("w" in node.input for node in nodes)]
        graph = helper.make_graph(nodes, "wide", values[:1], values[1:], inits)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.save_model(model, str(source / name))
        return StageEntry(file=name, inputs=(specs[ends[0]],), outputs=(specs[ends[1]],), macs=macs)

    manifest = Manifest(
        schema=1,
        name="wide",
        version="1.0",
        task=ClassifyTask(output="logits"),
        labels=("dark", "bright"),
        preprocess=Preprocess(kind="letterbox", width=SIDE, height=SIDE),
        full=stage("full.onnx", [pool, *rest], ("x", "logits"), 1_000_000_000),
        cuts=(
            Cut(
                name="middle",
                head=stage("head.onnx", [pool], ("x", "middle"), 1_000_000),
                tail=stage("tail.onnx", rest, ("middle", "logits"), 999_000_000),
                codecs=("raw",),
            ),
        ),
        default_cut="middle",
        default_codec="raw",
        files=(),
    )
    return write_bundle(source, manifest, folder / "wide")


def test_when_the_link_gets_bad_frames_stay_here(bundle: Path, tmp_path: Path) -> None:
    """Wanted is the least energy in time: sending, while 0.4 s are enough for that."""
    clip = write_clip(tmp_path / "clip.mp4", frames=FRAMES, rate_hz=RATE_HZ)
    settings = tmp_path / "device.toml"
    settings.write_text(
        f"""
        source = "{clip}"
        bundle = "{bundle}"
        mode = "auto"
        pace = "realtime"
        deadline_s = 0.4
        [controller]
        goal = "deadline"
        """
    )
    out = tmp_path / "out"
    link = f"{GOOD_S}s wifi-good; 60s wifi-bad"
    words: list[str | Path] = ["run", "--config", settings, "--out", out, "--link", link]
    with Headtail(*words, env={"XDG_CACHE_HOME": str(tmp_path / "cache")}) as process:
        output, errors = process.process.communicate(timeout=PATIENCE_S)
        assert process.process.returncode == 0, errors.decode()
    frames = records(out / "frames.jsonl")
    assert [frame["frame"] for frame in frames] == list(range(FRAMES))
    # The clip does not wait, so a slow machine may drop some, and some may be late at the turn.
    assert {frame["outcome"] for frame in frames} <= {
        "edge",
        "local",
        "degraded",
        "dropped",
        "expired",
    }
    placed = [frame for frame in frames if "placed" in frame]
    usual = [frame["placed"]["way"] for frame in placed if frame["placed"]["why"] == "best"]
    assert usual.count("middle raw") >= 10
    last = [frame["placed"]["way"] for frame in placed[-50:]]
    assert last.count("local") >= 40, "what is left over are tries"
    assert sum(before != after for before, after in pairwise(usual)) <= 6, "it flaps"
    summary = json.loads((out / "summary.json").read_text())
    assert summary["goal"] == "deadline"
    assert {one["way"] for one in summary["placements"]} == {"middle raw", "local"}
    assert sum(one["frames"] for one in summary["placements"]) == len(placed)
    assert "placed frame by frame, deadline" in " ".join(output.decode().split())
