"""ONNX heads as layers."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from headtail_fabric.errors import ConfigError
from headtail_models.mcu.errors import CalibrationError, UnsupportedLayerError
from headtail_models.mcu.floats import run_floats
from headtail_models.mcu.layers import LayerKind, Shape
from headtail_models.mcu.onnx_reader import read_head
from headtail_models.mcu.samples import channels_last, read_npy

_RNG = np.random.default_rng(4)


class Model:
    """An ONNX model, node by node."""

    def __init__(self, *shape: int | str) -> None:
        self._inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
        self._nodes: list[Any] = []
        self._weights: list[Any] = []
        self._last = "x"

    def node(
        self,
        op: str,
        *weights: Any,
        inputs: tuple[str, ...] = (),
        name: str = "",
        **attributes: Any,
    ) -> "Model":
        names = list(inputs or (self._last,))
        for weight in weights:
            names.append(f"w{len(self._weights)}")
            self._weights.append(numpy_helper.from_array(np.asarray(weight), names[-1]))
        self._last = name or f"{op.lower()}{len(self._nodes)}"
        self._nodes.append(helper.make_node(op, names, [self._last], **attributes))
        return self

    def save(self, folder: Path, *outputs: str) -> Path:
        graph = helper.make_graph(
            self._nodes,
            "head",
            self._inputs,
            [
                helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
                for name in outputs or (self._last,)
            ],
            self._weights,
        )
        path = folder / "head.onnx"
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.save(model, str(path))
        return path


def weights(*shape: int) -> Any:
    return (_RNG.normal(size=shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


def agrees(path: Path, *shape: int) -> None:
    """What the layers compute is what ONNX Runtime does."""
    samples = _RNG.normal(size=(3, *shape)).astype(np.float32)
    graph = read_head(path)
    found = run_floats(graph, channels_last(samples, graph.input_shape))
    session = onnxruntime.InferenceSession(str(path))
    for name in graph.outputs:
        for index in range(3):
            (wanted,) = session.run([name], {"x": samples[index : index + 1]})
            mine = found[name][index].transpose(2, 0, 1).reshape(-1)
            np.testing.assert_allclose(mine, wanted.reshape(-1), rtol=1e-4, atol=1e-4)


def test_convolutions_pools_and_a_dense_layer(tmp_path: Path) -> None:
    model = Model("n", 2, 9, 8)
    model.node("Conv", weights(6, 2, 3, 3), weights(6), strides=[2, 1], pads=[1, 1, 0, 1])
    model.node("BatchNormalization", *(np.abs(weights(4, 6)) + np.float32(0.5)))
    model.node("Relu")
    model.node("Conv", weights(6, 1, 3, 3), group=6, auto_pad="SAME_UPPER", strides=[2, 2])
    model.node("Clip", np.float32(0), np.float32(6))
    model.node("MaxPool", kernel_shape=[2, 2], pads=[1, 0, 0, 1])
    model.node("AveragePool", kernel_shape=[1, 2])
    model.node("Flatten").node("Gemm", weights(5, 36), weights(5), transB=1)
    path = model.save(tmp_path)
    agrees(path, 2, 9, 8)
    kinds = [layer.kind for layer in read_head(path).layers]
    assert kinds == [
        LayerKind.CONVOLUTION,
        LayerKind.DEPTHWISE,
        LayerKind.MAX_POOL,
        LayerKind.AVERAGE_POOL,
        LayerKind.CONVOLUTION,
    ]


def test_a_signal_with_a_residual_and_two_outputs(tmp_path: Path) -> None:
    model = Model(1, 4, 30)
    model.node("Conv", weights(8, 4, 5), pads=[2, 2], strides=[2], name="trunk")
    model.node("Relu", name="rectified").node("Conv", weights(8, 8, 1))
    model.node("Add", inputs=("trunk", "conv2"), name="sum").node("Relu", name="features")
    model.node("GlobalAveragePool").node("Flatten").node("MatMul", weights(8, 3), name="logits")
    path = model.save(tmp_path, "features", "logits")
    agrees(path, 4, 30)
    assert read_head(path).input_shape == Shape(1, 30, 4)


def test_vectors_and_reshapes(tmp_path: Path) -> None:
    model = Model(1, 12).node("Gemm", weights(12, 20), weights(20)).node("Relu")
    model.node("Reshape", np.array([1, 20])).node("Identity").node("Gemm", weights(20, 4))
    agrees(model.save(tmp_path), 12)


def test_mean_over_rows_and_columns(tmp_path: Path) -> None:
    model = Model(1, 3, 4, 5).node("Conv", weights(4, 3, 1, 1))
    model.node("ReduceMean", axes=[2, 3], keepdims=0).node("Gemm", weights(4, 2))
    agrees(model.save(tmp_path), 3, 4, 5)


@pytest.mark.parametrize(
    ("op", "operands", "attributes", "why"),
    [
        ("Sigmoid", (), {}, "no kernel"),
        ("Conv", (weights(4, 2, 3, 3),), {"dilations": [2, 2]}, "dilation"),
        ("Conv", (weights(4, 2, 1, 1),), {"group": 2}, "2 groups"),
        ("AveragePool", (), {"kernel_shape": [2, 2], "pads": [1, 1, 0, 0]}, "count"),
        ("MaxPool", (), {"kernel_shape": [2, 2], "ceil_mode": 1}, "ceil_mode"),
        ("ReduceMean", (), {"axes": [1]}, "mean over"),
        ("Add", (weights(1, 4, 1, 1),), {}, "constant"),
    ],
)
def test_what_has_no_kernel_is_named(
    tmp_path: Path, op: str, operands: tuple[Any, ...], attributes: dict[str, Any], why: str
) -> None:
    model = Model(1, 4, 8, 8).node("MaxPool", kernel_shape=[2, 2])
    model.node(op, *operands, **attributes)
    with pytest.raises(UnsupportedLayerError, match=why):
        read_head(model.save(tmp_path))


def test_free_axes_and_several_inputs_are_refused(tmp_path: Path) -> None:
    path = Model(1, 4, "rows", 8).node("Conv", weights(4, 4, 1, 1)).save(tmp_path)
    with pytest.raises(UnsupportedLayerError, match="fixed shape"):
        read_head(path)


def test_samples_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "samples.npy"
    np.save(path, np.arange(2 * 3 * 5, dtype=np.uint8).reshape(2, 3, 5))
    found = read_npy(path, Shape(1, 5, 3))
    assert found.shape == (2, 1, 5, 3)
    assert found[0, 0, 1].tolist() == [1, 6, 11]
    with pytest.raises(CalibrationError, match="reads 2x5x3"):
        read_npy(path, Shape(2, 5, 3))
    path.write_bytes(b"nothing")
    with pytest.raises(CalibrationError):
        read_npy(path, Shape(1, 5, 3))
    with pytest.raises(ConfigError):
        read_npy(tmp_path / "absent.npy", Shape(1, 5, 3))
