"""What a model takes, and sizes for its free axes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, parser

from headtail_models.splitting import open_model
from headtail_models.splitting.errors import (
    FreeAxisError,
    RefusedModelError,
    SplitError,
    UnknownTensorError,
)
from headtail_models.splitting.inputs import InputSpec, input_specs, random_inputs


def model_of(*inputs: Any) -> Any:
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    return helper.make_model(helper.make_graph([], "g", inputs, [output]))


def tensor(name: str, *shape: int | str, kind: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def test_axes_of_one_name_have_one_size() -> None:
    model = model_of(tensor("a", "N", "W"), tensor("b", "N", "W", 3))
    a, b = input_specs(model, {"a": (1, 7)})
    assert (a.shape, b.shape) == ((1, 7), (1, 7, 3))
    assert a.free_batch
    assert b.sized(5) == (5, 7, 3)


def test_an_input_without_axes() -> None:
    (spec,) = input_specs(model_of(tensor("a")), {})
    assert spec.shape == ()
    assert not spec.free_batch


def test_an_input_without_a_shape_wants_one() -> None:
    model = model_of(helper.make_tensor_value_info("a", TensorProto.FLOAT, None))
    with pytest.raises(FreeAxisError, match="no shape"):
        input_specs(model, {})
    (spec,) = input_specs(model, {"a": (1, 3)})
    assert spec.shape == (1, 3)


@pytest.mark.parametrize(
    ("shape", "told"),
    [
        ((1, 2), "has 3 axes, not 2"),
        ((1, 4, 5), "has 3 on axis 1, not 4"),
        ((1, 3, 0), "has 0 on axis 2"),
    ],
)
def test_sizes_that_do_not_fit(shape: tuple[int, ...], told: str) -> None:
    with pytest.raises(SplitError, match=told):
        input_specs(model_of(tensor("a", "N", 3, "W")), {"a": shape})


def test_an_input_that_is_not_there() -> None:
    with pytest.raises(UnknownTensorError, match="there are: a"):
        input_specs(model_of(tensor("a", 1)), {"b": (1,)})


def test_an_axis_without_a_name_or_a_size() -> None:
    model = model_of(tensor("a", "N", "W"))
    model.graph.input[0].type.tensor_type.shape.dim[1].Clear()
    with pytest.raises(FreeAxisError, match="axis '1'"):
        input_specs(model, {})


@pytest.mark.parametrize("kind", [TensorProto.STRING, TensorProto.BFLOAT16, TensorProto.UNDEFINED])
def test_types_that_are_not_taken(kind: int) -> None:
    with pytest.raises(SplitError, match="not a tensor of numbers"):
        input_specs(model_of(tensor("a", 1, kind=kind)), {})


def test_random_inputs_are_valid_as_indices_and_masks() -> None:
    specs = [
        InputSpec(name=dtype, dtype=dtype, shape=(1, 50), free_batch=True)
        for dtype in ("float32", "float16", "int64", "uint8", "bool")
    ]
    drawn = random_inputs(specs, batch=2, seed=1)
    for name, array in drawn.items():
        assert array.dtype.name == name
        assert array.shape == (2, 50)
        assert array.min() >= 0
        assert array.max() <= 1
    again = random_inputs(specs, batch=2, seed=1)
    assert all(np.array_equal(drawn[name], again[name]) for name in drawn)


def test_a_batch_that_is_free_by_name_only(tmp_path: Path) -> None:
    body = """
g (float[N,4] x) => (float[1,4] y) <int64[2] to = {1, 4}> {
  a = Relu(x)
  y = Reshape(a, to)
}"""
    path = tmp_path / "model.onnx"
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]>{body}')
    path.write_bytes(model.SerializeToString())
    (tmp_path / "work").mkdir()
    opened = open_model(path, tmp_path / "work")
    assert opened.census.batches == (1,)
    assert opened.verify(opened.split(opened.cut_at("a"))).runs == 1
    part = opened.load(opened.proto, "full.onnx")
    with pytest.raises(RefusedModelError, match="Reshape"):
        part.run({"x": np.zeros((3, 4), np.float32)})
