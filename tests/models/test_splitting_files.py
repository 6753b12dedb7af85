"""Models as files: what is refused, where weights lie, what is written."""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
import pytest
from onnx import TensorProto, external_data_helper, helper, numpy_helper

from headtail_fabric.errors import ConfigError, ResourceError
from headtail_models.splitting import files, open_model
from headtail_models.splitting.errors import (
    ExternalDataError,
    MalformedGraphError,
    NewerModelError,
    NotOnnxError,
    RefusedModelError,
)
from headtail_models.splitting.files import SplitNote, write_parts
from headtail_models.splitting.runtime import Part
from headtail_models.splitting.weights import WEIGHTS, gather_weights, outside_bytes

SIDE = 40
"""Makes parameters of 6,400 bytes, more than what stays in the graph."""


def large_model() -> Any:
    draw = np.random.default_rng(3)
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w1"], ["a"]),
            helper.make_node("Add", ["a", "b1"], ["b"]),
            helper.make_node("MatMul", ["b", "w2"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", SIDE])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", SIDE])],
        [
            numpy_helper.from_array(draw.random((SIDE, SIDE), np.float32), "w1"),
            numpy_helper.from_array(draw.random(SIDE, np.float32), "b1"),
            numpy_helper.from_array(draw.random((SIDE, SIDE), np.float32), "w2"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A model whose parameters all lie in two files beside it."""
    model = large_model()
    for at, tensor in enumerate(model.graph.initializer):
        data = tensor.raw_data
        (tmp_path / f"data-{at}").write_bytes(b"\1" * 16 + data)
        external_data_helper.set_external_data(tensor, f"data-{at}", offset=16, length=len(data))
        tensor.ClearField("raw_data")
    path = tmp_path / "outside.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def save(model: Any, tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def test_weights_inside_and_outside_come_to_the_same(
    tmp_path: Path, work: Path, outside: Path
) -> None:
    inside = open_model(save(large_model(), tmp_path), work)
    (tmp_path / "other").mkdir()
    other = open_model(outside, tmp_path / "other")
    assert (work / WEIGHTS).read_bytes() == (tmp_path / "other" / WEIGHTS).read_bytes()
    assert outside_bytes(inside.proto) == 2 * 4 * SIDE * SIDE
    # The small one is in the graph, wherever it was.
    for model in (inside, other):
        held = {one.name for one in model.proto.graph.initializer if one.HasField("raw_data")}
        assert held == {"b1"}
        split = model.split(model.cut_at("b"))
        assert {one.name for one in split.head.graph.initializer} == {"w1", "b1"}
        model.verify(split)


def test_typed_values_are_gathered_as_raw_ones(tmp_path: Path, work: Path) -> None:
    model = large_model()
    values = numpy_helper.to_array(model.graph.initializer[0])
    typed = helper.make_tensor("w1", TensorProto.FLOAT, values.shape, values.ravel().tolist())
    model.graph.initializer[0].CopyFrom(typed)
    opened = open_model(save(model, tmp_path), work)
    assert (work / WEIGHTS).read_bytes()[: values.nbytes] == values.tobytes()
    opened.verify(opened.split(opened.cut_at("a")))


def _point(path: Path, **entries: str) -> None:
    model = onnx.load(path, load_external_data=False)
    del model.graph.initializer[0].external_data[:]
    for key, value in entries.items():
        model.graph.initializer[0].external_data.add(key=key, value=value)
    path.write_bytes(model.SerializeToString())


@pytest.mark.parametrize(
    ("entries", "told"),
    [
        ({"location": "missing"}, "No such file"),
        ({"location": "../data-0"}, "outside the model's folder"),
        ({"location": "/etc/passwd"}, "outside the model's folder"),
        ({"location": ""}, "no such name"),
        ({"location": "a\0b"}, "no such name"),
        ({"location": "data-0", "offset": "99999"}, "would lie at 99999"),
        ({"location": "data-0", "offset": "-4"}, "would lie at -4"),
        ({"location": "data-0", "offset": "many"}, "no place"),
        ({"location": "data-0", "offset": "0", "length": "16"}, "needs 6400"),
        ({"location": "empty"}, "has 0 bytes"),
    ],
)
def test_weights_that_are_not_where_the_model_says(
    outside: Path, work: Path, entries: dict[str, str], told: str
) -> None:
    (outside.parent / "empty").touch()
    _point(outside, **entries)
    with pytest.raises(ExternalDataError, match=told):
        open_model(outside, work)


def test_a_link_does_not_lead_outside(outside: Path, work: Path, tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "data-0").symlink_to(tmp_path / "data-0")
    model = outside.rename(inner / "outside.onnx")
    with pytest.raises(ExternalDataError, match="outside the model's folder"):
        open_model(model, work)


def test_a_parameter_of_the_wrong_size(tmp_path: Path, work: Path) -> None:
    model = large_model()
    model.graph.initializer[0].raw_data = b"\0" * 5000
    with pytest.raises(MalformedGraphError, match="5000 bytes, not 6400"):
        open_model(save(model, tmp_path), work)


@pytest.mark.parametrize("data", [b"", b"not a model at all", b"\x08\x08", b"\xff" * 64])
def test_what_is_not_onnx(tmp_path: Path, work: Path, data: bytes) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    with pytest.raises(NotOnnxError):
        open_model(path, work)


def test_no_file(tmp_path: Path, work: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        open_model(tmp_path / "none.onnx", work)


def test_newer_models(tmp_path: Path, work: Path) -> None:
    model = large_model()
    model.opset_import[0].version = 999
    with pytest.raises(NewerModelError, match="opset 999"):
        open_model(save(model, tmp_path), work)
    model = large_model()
    model.ir_version = 999
    with pytest.raises(NewerModelError, match="IR version 999"):
        open_model(save(model, tmp_path), work)


def test_an_operator_that_the_runtime_lacks(tmp_path: Path, work: Path) -> None:
    model = large_model()
    model.graph.node[1].domain = "nobody"
    model.opset_import.add(domain="nobody", version=1)
    with pytest.raises(RefusedModelError, match=r"probe\.onnx"):
        open_model(save(model, tmp_path), work)


def test_the_parts_stand_alone(tmp_path: Path, work: Path, outside: Path) -> None:
    model = open_model(outside, work)
    split = model.split(model.cut_at("b"))
    out = tmp_path / "out"
    out.mkdir()
    written = write_parts(model, split, model.verify(split), out, name="outside.onnx")
    assert sorted(path.name for path in out.iterdir()) == ["head.onnx", "split.json", "tail.onnx"]
    assert msgspec.json.decode((out / "split.json").read_bytes(), type=SplitNote) == written
    assert written.crossing[0].shape == (None, SIDE)
    assert written.head_macs == written.tail_macs == SIDE * SIDE
    inputs = {"x": np.ones((2, SIDE), np.float32)}
    found = Part(out / "tail.onnx").run(Part(out / "head.onnx").run(inputs))
    whole = model.load(model.proto, "full.onnx").run(inputs)
    np.testing.assert_allclose(found["y"], whole["y"], rtol=1e-6)


def test_heavy_parts_keep_their_own_weights_beside_them(
    tmp_path: Path, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MAX_EMBEDDED_BYTES", 0)
    model = open_model(save(large_model(), tmp_path), work)
    split = model.split(model.cut_at("b"))
    out = tmp_path / "out"
    out.mkdir()
    write_parts(model, split, model.verify(split), out, name="model.onnx")
    assert (out / "head.weights.bin").stat().st_size == 4 * SIDE * SIDE
    assert (out / "tail.weights.bin").stat().st_size == 4 * SIDE * SIDE
    Part(out / "tail.onnx")


def test_a_folder_that_is_not_there(tmp_path: Path, work: Path) -> None:
    model = open_model(save(large_model(), tmp_path), work)
    split = model.split(model.cut_at("b"))
    with pytest.raises(ResourceError, match="No such file"):
        write_parts(model, split, model.verify(split), tmp_path / "none", name="m")
    with pytest.raises(ResourceError):
        gather_weights(large_model(), tmp_path, tmp_path / "none" / "w")
