"""Trained parts join the network around them, and compute what the parts compute one by one."""

from pathlib import Path

import msgspec
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from headtail_models.bundle.manifest import Coder, Cut, Filter, Measured, StageEntry
from headtail_models.stage import OnnxStage
from headtail_models.tensor import TensorSpec
from headtail_models.zoo import released
from headtail_models.zoo.released import ReleasedCut, released_cuts, write_released

SIDE = 4


def _stage(path: Path, source: str, result: str, factor: float) -> StageEntry:
    """Multiplies by a factor."""
    shape = (1, SIDE, SIDE)
    value = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", *shape])
        for name in (source, result)
    ]
    constant = numpy_helper.from_array(np.array([factor], np.float32), f"{result}.factor")
    node = helper.make_node("Mul", [source, constant.name], [result])
    graph = helper.make_graph([node], path.stem, value[:1], value[1:], [constant])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    specs = [TensorSpec(name=name, dtype="float32", shape=shape) for name in (source, result)]
    return StageEntry(file=path.name, inputs=(specs[0],), outputs=(specs[1],), macs=16)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with one released cut, `b.json`, of the bundle `net`."""
    folder = tmp_path / "released" / "net"
    folder.mkdir(parents=True)
    (folder / "rans.htrc").write_bytes(b"a coding model")
    cut = Cut(
        name="b",
        head=_stage(folder / "encoder.onnx", "early", "latents", 3.0),
        tail=_stage(folder / "tail-b.onnx", "latents", "late", 5.0),
        codecs=("rans",),
        coders={"rans": Coder(file="rans.htrc", steps=(1.0,))},
    )
    part = ReleasedCut(after="early", before="late", cut=cut)
    (folder / "b.json").write_bytes(msgspec.json.encode(part))
    monkeypatch.setattr(released, "files", lambda _: tmp_path)
    return folder


def _write(part: ReleasedCut, out: Path) -> Cut:
    before = _stage(out / "head-early.onnx", "image", "early", 2.0)
    after = _stage(out / "tail-late.onnx", "late", "answer", 7.0)
    measured = (Measured(codec="rans", value=0.5, drop=0.1, mean_bytes=9),)
    return write_released("net", part, out, before=before, after=after, measured=measured)


def _run(out: Path, entry: StageEntry, value: float) -> float:
    stage = OnnxStage(out / entry.file)
    given = {entry.inputs[0].name: np.full((2, 1, SIDE, SIDE), value, np.float32)}
    return float(stage.run(given)[entry.outputs[0].name].max())


def test_both_ends_are_joined(package: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (part,) = released_cuts("net")
    cut = _write(part, out)
    assert (cut.head.inputs[0].name, cut.head.outputs[0].name) == ("image", "latents")
    assert (cut.tail.inputs[0].name, cut.tail.outputs[0].name) == ("latents", "answer")
    assert (cut.head.macs, cut.tail.macs) == (32, 32)
    assert _run(out, cut.head, 1.0) == 6
    assert _run(out, cut.tail, 1.0) == 35
    assert cut.measured[0].mean_bytes == 9
    assert (out / "rans.htrc").read_bytes() == b"a coding model"


def test_the_way_to_where_the_tail_meets_the_network_is_a_stage(
    package: Path, tmp_path: Path
) -> None:
    """What was trained lies beside both stages that need it, once."""
    trained = onnx.load(package / "tail-b.onnx")
    kernel = np.full(600, 5.0, np.float32)
    trained.graph.initializer.append(numpy_helper.from_array(kernel, "spare"))
    onnx.save(trained, package / "tail-b.onnx")
    out = tmp_path / "out"
    out.mkdir()
    (part,) = released_cuts("net")
    cut = _write(part, out)
    assert cut.segment is not None
    stage = cut.segment.stage
    assert (cut.segment.until, stage.file) == ("late", "segment-b.onnx")
    assert (stage.inputs, stage.outputs) == (part.cut.tail.inputs, part.cut.tail.outputs)
    assert _run(out, stage, 1.0) == 5
    assert (out / "tail-b.bin").stat().st_size >= kernel.nbytes
    assert max((out / file).stat().st_size for file in (stage.file, cut.tail.file)) < kernel.nbytes
    assert _run(out, cut.tail, 1.0) == 35


def test_a_gate_gets_the_networks_own_trunk(package: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (part,) = released_cuts("net")
    branch = _stage(package / "branch.onnx", "early", "logits", 1.0)
    gate = Filter(name="presence", branch=branch, threshold=0.5, recall=0.9)
    gated = msgspec.structs.replace(part, cut=msgspec.structs.replace(part.cut, gates=(gate,)))
    cut = _write(gated, out)
    trunk = cut.gates[0].trunk
    assert trunk is not None
    assert trunk.file == "head-early.onnx"
    assert cut.head.inputs[0].name == "early"
    assert _run(out, trunk, 1.0) * 3 == _run(out, cut.head, 2.0) == 6
    assert (out / "branch.onnx").exists()


def test_a_bundle_may_have_none(package: Path) -> None:
    assert list(released_cuts("another")) == []
