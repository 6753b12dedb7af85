"""A stage in ONNX Runtime: models with their weights outside, and everything that can be wrong."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from headtail_fabric.errors import ConfigError, LocalError, ResourceError
from headtail_models.stage import (
    OnnxStage,
    StageError,
    StageInputError,
    StageLoadError,
    StageRunError,
)
from headtail_models.tensor import TensorSpec

SIDE = 6
DRAW = np.random.default_rng(4)
PARAMETERS = {
    "w1": DRAW.normal(size=(4, 3, 3, 3)).astype(np.float32),
    "w2": DRAW.normal(size=(2, 4, 3, 3)).astype(np.float32),
}
OFFSETS = {"w1": 0, "w2": 4096}
NODES = {
    "head": [
        helper.make_node("Conv", ["x", "w1"], ["sum"], pads=[1] * 4),
        helper.make_node("Relu", ["sum"], ["crossing"]),
    ],
    "tail": [helper.make_node("Conv", ["crossing", "w2"], ["y"], pads=[1] * 4)],
}
CHANNELS = {"x": 3, "crossing": 4, "y": 2}


def _parameter(name: str) -> Any:
    array = PARAMETERS[name]
    tensor = TensorProto(name=name, dims=array.shape, data_type=TensorProto.FLOAT)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (
        ("location", "weights.bin"),
        ("offset", OFFSETS[name]),
        ("length", array.nbytes),
    ):
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def _border(name: str, *, kind: int = TensorProto.FLOAT, shape: Sequence[Any] | None = None) -> Any:
    return helper.make_tensor_value_info(name, kind, shape or ["N", CHANNELS[name], SIDE, SIDE])


def _save(
    path: Path, nodes: list[Any], inputs: list[Any], outputs: list[Any], parameters: list[Any]
) -> Path:
    graph = helper.make_graph(nodes, "part", inputs, outputs, parameters)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


def _write(folder: Path) -> Path:
    weights = PARAMETERS["w1"].tobytes().ljust(OFFSETS["w2"], b"\x00") + PARAMETERS["w2"].tobytes()
    (folder / "weights.bin").write_bytes(weights)
    for name, start, end in (("head", "x", "crossing"), ("tail", "crossing", "y")):
        used = [key for node in NODES[name] for key in node.input if key in PARAMETERS]
        _save(
            folder / f"{name}.onnx",
            NODES[name],
            [_border(start)],
            [_border(end)],
            list(map(_parameter, used)),
        )
    _save(
        folder / "full.onnx",
        NODES["head"] + NODES["tail"],
        [_border("x")],
        [_border("y")],
        list(map(_parameter, PARAMETERS)),
    )
    onnx.checker.check_model(str(folder / "full.onnx"))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _write(tmp_path_factory.mktemp("stages"))


@pytest.fixture(scope="module")
def full(folder: Path) -> OnnxStage:
    return OnnxStage(folder / "full.onnx")


def _pictures(batch: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.random.default_rng(batch).random((batch, 3, SIDE, SIDE), dtype=np.float32)


def _relative(path: Path) -> Path:
    return Path(os.path.relpath(path))


def test_says_what_it_takes_and_gives(full: OnnxStage) -> None:
    assert full.inputs == (TensorSpec(name="x", dtype="float32", shape=(3, SIDE, SIDE)),)
    assert full.outputs == (TensorSpec(name="y", dtype="float32", shape=(2, SIDE, SIDE)),)
    assert repr(full) == (
        "<OnnxStage full.onnx x float32 ('N', 3, 6, 6) -> y float32 ('N', 2, 6, 6)>"
    )


@pytest.mark.parametrize("threads", [1, 2])
def test_head_then_tail_is_the_full_model(folder: Path, full: OnnxStage, threads: int) -> None:
    head = OnnxStage(folder / "head.onnx", threads=threads)
    tail = OnnxStage(_relative(folder / "tail.onnx"), threads=threads)
    pictures = _pictures(3)
    split = tail.run(head.run({"x": pictures}))["y"]
    assert abs(split - full.run({"x": pictures})["y"]).max() <= 1e-5


def test_a_batch_is_its_pictures_one_by_one(full: OnnxStage) -> None:
    pictures = _pictures(5)
    together = full.run({"x": pictures})["y"]
    assert together.shape == (5, 2, SIDE, SIDE)
    for at in range(5):
        alone = full.run({"x": pictures[at : at + 1]})["y"]
        assert abs(alone[0] - together[at]).max() <= 1e-5


def test_views_of_received_bytes_are_taken(full: OnnxStage) -> None:
    pictures = _pictures(2)
    view = np.frombuffer(memoryview(pictures.tobytes()), dtype=np.float32).reshape(pictures.shape)
    assert not view.flags.writeable
    np.testing.assert_array_equal(full.run({"x": view})["y"], full.run({"x": pictures})["y"])


def test_any_memory_layout_means_the_same(full: OnnxStage) -> None:
    pictures = _pictures(4)
    expected = full.run({"x": pictures})["y"]
    wide = np.repeat(pictures, 2, axis=3)
    for same in (np.asfortranarray(pictures), wide[..., ::2], pictures[::-1].copy()[::-1]):
        np.testing.assert_array_equal(full.run({"x": same})["y"], expected)


def _given(name: str = "x", dtype: Any = np.float32, shape: tuple[int, ...] = (1, 3, 6, 6)) -> Any:
    return {name: np.zeros(shape, dtype=dtype)}


@pytest.mark.parametrize(
    ("inputs", "told"),
    [
        ({}, r"takes \['x'\], was given \[\]"),
        (_given("z"), r"takes \['x'\], was given \['z'\]"),
        (_given() | _given("z"), r"was given \['x', 'z'\]"),
        (_given(dtype=np.float64), "given <f8"),
        (_given(dtype=np.uint8), r"given \|u1"),
        (_given(dtype=">f4"), "given >f4"),
        (_given(shape=(1, 4, 6, 6)), r"\(1, 4, 6, 6\)"),
        (_given(shape=(3, 6, 6)), r"\(3, 6, 6\)"),
        (_given(shape=()), r"given <f4 \(\)"),
        (_given(shape=(0, 3, 6, 6)), r"batches of \[0\]"),
    ],
)
def test_wrong_inputs_never_reach_the_runtime(full: OnnxStage, inputs: Any, told: str) -> None:
    with pytest.raises(StageInputError, match=told) as caught:
        full.run(inputs)
    assert isinstance(caught.value, StageError)
    assert isinstance(caught.value, LocalError)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 7), max_size=5), st.sampled_from(["<f4", ">f4", "u1", "i8", "O"]))
def test_any_array_gives_a_result_or_a_typed_error(
    full: OnnxStage, shape: list[int], dtype: str
) -> None:
    array = np.zeros(shape, dtype=dtype)
    fits = dtype == "<f4" and len(shape) == 4 and shape[0] > 0 and shape[1:] == [3, 6, 6]
    if fits:
        assert full.run({"x": array})["y"].shape == (shape[0], 2, 6, 6)
        return
    with pytest.raises(StageInputError):
        full.run({"x": array})


def test_inputs_of_different_batches(tmp_path: Path) -> None:
    path = _save(
        tmp_path / "add.onnx",
        [helper.make_node("Add", ["a", "b"], ["c"])],
        [_border("a", shape=["N", 2]), _border("b", shape=["N", 2])],
        [_border("c", shape=["N", 2])],
        [],
    )
    stage, two, three = OnnxStage(path), np.ones((2, 2), np.float32), np.ones((3, 2), np.float32)
    np.testing.assert_array_equal(stage.run({"a": two, "b": two})["c"], two + two)
    with pytest.raises(StageInputError, match=r"batches of \[2, 3\]"):
        stage.run({"a": two, "b": three})


def _refused(path: Path, told: str) -> None:
    with pytest.raises(StageLoadError, match=told) as caught:
        OnnxStage(path)
    assert path.name in caught.value.message
    assert "\n" not in caught.value.message
    assert isinstance(caught.value, ConfigError)


def test_missing_weights(tmp_path: Path) -> None:
    (_write(tmp_path) / "weights.bin").unlink()
    _refused(tmp_path / "full.onnx", r"weights\.bin")


@pytest.mark.parametrize("size", [0, 100, 4096, 4096 + PARAMETERS["w2"].nbytes - 1])
def test_shortened_weights(tmp_path: Path, size: int, capfd: pytest.CaptureFixture[str]) -> None:
    os.truncate(_write(tmp_path) / "weights.bin", size)
    _refused(tmp_path / "full.onnx", "weights|out of bounds")
    capfd.readouterr()  # the runtime has its say on standard error, too


@pytest.mark.parametrize("place", ["../weights.bin", "/etc/passwd"])
def test_weights_from_elsewhere(tmp_path: Path, place: str) -> None:
    (tmp_path / "inner").mkdir()
    _write(tmp_path)
    model = onnx.load(str(tmp_path / "full.onnx"), load_external_data=False)
    for tensor in model.graph.initializer:
        tensor.external_data[0].value = place
    (tmp_path / "inner" / "full.onnx").write_bytes(model.SerializeToString())
    _refused(tmp_path / "inner" / "full.onnx", "xternal data")


@pytest.mark.parametrize("content", [b"", b"garbage" * 50, b"\x00" * 100, b"PK\x03\x04"])
def test_what_is_no_model(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "full.onnx").write_bytes(content)
    _refused(tmp_path / "full.onnx", "onnx")


def test_no_file_at_all(tmp_path: Path) -> None:
    _refused(tmp_path / "full.onnx", "exist")


def test_an_operator_that_the_runtime_lacks(tmp_path: Path) -> None:
    path = _save(
        tmp_path / "odd.onnx",
        [helper.make_node("Odd", ["x"], ["y"])],
        [_border("x")],
        [_border("y")],
        [],
    )
    _refused(path, "Odd")


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        (TensorProto.FLOAT, [1, 3]),
        (TensorProto.FLOAT, ["N", "C"]),
        (TensorProto.FLOAT, ["N", None]),
        (TensorProto.FLOAT, ["N"]),
        (TensorProto.DOUBLE, ["N", 3]),
        (TensorProto.INT64, ["N", 3]),
    ],
)
def test_tensors_that_no_stage_has(tmp_path: Path, kind: int, shape: list[Any]) -> None:
    path = _save(
        tmp_path / "identity.onnx",
        [helper.make_node("Identity", ["x"], ["y"])],
        [_border("x", kind=kind, shape=shape)],
        [_border("y", kind=kind, shape=shape)],
        [],
    )
    _refused(path, "first axis free and the others fixed")


def test_a_fault_while_running(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A table is asked for a row that it does not have."""
    path = _save(
        tmp_path / "gather.onnx",
        [
            helper.make_node("Cast", ["x"], ["row"], to=TensorProto.INT64),
            helper.make_node("Gather", ["table", "row"], ["y"]),
        ],
        [_border("x", shape=["N", 1])],
        [_border("y", shape=["N", 1, 4])],
        [helper.make_tensor("table", TensorProto.FLOAT, [3, 4], range(12))],
    )
    stage = OnnxStage(path)
    assert stage.run({"x": np.full((1, 1), 2, np.float32)})["y"].tolist() == [[[8, 9, 10, 11]]]
    with pytest.raises(StageRunError, match=r"gather\.onnx") as caught:
        stage.run({"x": np.full((1, 1), 3, np.float32)})
    assert isinstance(caught.value, ResourceError)
    capfd.readouterr()
