"""An ONNX head as a `HeadGraph`.

ONNX Runtime first folds what can be folded without changing the result (batch normalisation into
convolutions, constants, identities); what is left is read node by node.
"""

import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnxruntime

from headtail_fabric.errors import ConfigError
from headtail_fabric.logs import printable
from headtail_models.mcu.errors import UnsupportedLayerError
from headtail_models.mcu.graph_builder import GraphBuilder, Origin, check_pads
from headtail_models.mcu.layers import Floats, HeadGraph, LayerKind, Shape

try:
    import onnx

    from headtail_models.splitting.read import read_model
    from headtail_models.splitting.runtime import Part
except ImportError:
    raise ConfigError("onnx is not installed; pip install 'headtail[build]'") from None

_RELU: Final = (0.0, np.inf)


def read_head(path: Path) -> HeadGraph:
    """The head in a file. Raises UnsupportedLayerError, NotOnnxError, RefusedModelError."""
    read_model(path)
    return _Reader(_folded(path)).graph()


def _folded(path: Path) -> Any:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    with tempfile.TemporaryDirectory(prefix="headtail-mcu-") as folder:
        target = Path(folder) / "folded.onnx"
        options.optimized_model_filepath = str(target)
        Part(path)  # refuses what ONNX Runtime can't load
        onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        folded = onnx.load(str(target))
    for value in folded.graph.input:
        first = value.type.tensor_type.shape.dim[:1]
        if first and not first[0].dim_value:
            first[0].dim_value = 1
    return onnx.shape_inference.infer_shapes(folded)


class _Reader:
    """One pass over the nodes."""

    def __init__(self, model: Any) -> None:
        graph = model.graph
        self._graph = graph
        self._constants = {i.name: onnx.numpy_helper.to_array(i) for i in graph.initializer}
        self._shapes = {
            value.name: tuple(d.dim_value for d in value.type.tensor_type.shape.dim)
            for value in [*graph.input, *graph.value_info, *graph.output]
        }
        self._readers = Counter(name for node in graph.node for name in node.input)
        self._readers.update(value.name for value in graph.output)
        inputs = [v.name for v in graph.input if v.name not in self._constants]
        if len(inputs) != 1:
            raise UnsupportedLayerError(f"the model has {len(inputs)} inputs, a head has one")
        self._builder = GraphBuilder(inputs[0], self._shape(inputs[0]))

    def graph(self) -> HeadGraph:
        """Raises UnsupportedLayerError."""
        for node in self._graph.node:
            self._read(node)
        return self._builder.graph([value.name for value in self._graph.output])

    def _read(self, node: Any) -> None:
        reader = _READERS.get(node.op_type)
        if reader is None or node.domain not in ("", "ai.onnx"):
            raise _origin(node).refused("no kernel for it")
        if node.op_type != "Constant" and not self._builder.holds(node.input[0]):
            raise _origin(node).refused("its input is a constant")
        reader(self, node)

    def _convolution(self, node: Any) -> None:
        attributes = _attributes(node)
        weights = self._constant(node, 1)
        spatial = weights.ndim - 2
        if spatial not in (1, 2):
            raise _origin(node).refused(f"{spatial} spatial axes")
        if any(d != 1 for d in attributes.get("dilations", ())):
            raise _origin(node).refused("dilation")
        if spatial == 1:
            weights = weights[:, :, np.newaxis]
        kernel = (int(weights.shape[2]), int(weights.shape[3]))
        self._builder.convolution(
            _origin(node),
            input=node.input[0],
            output=node.output[0],
            shape=self._shape(node.output[0]),
            weights=weights,
            bias=self._bias(node, 2, weights.shape[0]),
            groups=attributes.get("group", 1),
            **self._geometry(node, attributes, kernel, self._shape(node.input[0])),
        )

    def _gemm(self, node: Any) -> None:
        attributes = _attributes(node)
        scales = attributes.get("alpha", 1.0), attributes.get("beta", 1.0)
        if attributes.get("transA", 0) or scales != (1.0, 1.0):
            raise _origin(node).refused("transA, alpha or beta")
        weights = self._constant(node, 1)
        out_first = weights if attributes.get("transB", 0) else weights.T
        self._dense(node, out_first, self._bias(node, 2, out_first.shape[0]))

    def _matmul(self, node: Any) -> None:
        weights = self._constant(node, 1)
        if weights.ndim != 2:
            raise _origin(node).refused("weights that are not a matrix")
        self._dense(node, weights.T, np.zeros(weights.shape[1], dtype=np.float32))

    def _dense(self, node: Any, weights: Any, bias: Floats) -> None:
        name = node.input[0]
        if len(self._shapes[name]) != 2:
            raise _origin(node).refused(f"input of shape {self._shapes[name]}, not flat")
        self._builder.dense(
            _origin(node), input=name, output=node.output[0], weights=weights, bias=bias
        )

    def _addition(self, node: Any) -> None:
        self._builder.addition(_origin(node), inputs=tuple(node.input), output=node.output[0])

    def _pool(self, node: Any) -> None:
        attributes = _attributes(node)
        kernel = _pair(attributes["kernel_shape"])
        if attributes.get("ceil_mode", 0) or any(d != 1 for d in attributes.get("dilations", ())):
            raise _origin(node).refused("ceil_mode or dilation")
        geometry = self._geometry(node, attributes, kernel, self._shape(node.input[0]))
        average = node.op_type == "AveragePool"
        if average and any(geometry["pads"]) and not attributes.get("count_include_pad", 0):
            raise _origin(node).refused("padding that does not count (count_include_pad=0)")
        kind = LayerKind.AVERAGE_POOL if average else LayerKind.MAX_POOL
        self._append_pool(node, kind, kernel=kernel, **geometry)

    def _global_pool(self, node: Any) -> None:
        source = self._shape(node.input[0])
        peak = node.op_type == "GlobalMaxPool"
        kind = LayerKind.MAX_POOL if peak else LayerKind.AVERAGE_POOL
        self._append_pool(node, kind, kernel=(source.h, source.w))

    def _append_pool(self, node: Any, kind: LayerKind, **fields: Any) -> None:
        self._builder.append(
            _origin(node),
            kind,
            inputs=(node.input[0],),
            output=node.output[0],
            shape=self._shape(node.output[0]),
            **fields,
        )

    def _mean(self, node: Any) -> None:
        axes = _attributes(node).get("axes")
        if axes is None and len(node.input) > 1:
            axes = self._constant(node, 1).tolist()
        rank = len(self._shapes[node.input[0]])
        if axes is None or tuple(sorted(a % rank for a in axes)) != tuple(range(2, rank)):
            raise _origin(node).refused(f"mean over axes {axes}, not over all rows and columns")
        self._global_pool(node)

    def _clamp(self, node: Any) -> None:
        low, high = _RELU
        if node.op_type == "Clip":
            bounds = [
                float(self._constant(node, i)) if len(node.input) > i and node.input[i] else None
                for i in (1, 2)
            ]
            low = -np.inf if bounds[0] is None else bounds[0]
            high = np.inf if bounds[1] is None else bounds[1]
        self._builder.clamp(
            _origin(node),
            input=node.input[0],
            output=node.output[0],
            low=low,
            high=high,
            alone=self._readers[node.input[0]] == 1,
        )

    def _rename(self, node: Any) -> None:
        """Identity, and what only changes the shape of values whose order stays."""
        name, output = node.input[0], node.output[0]
        self._builder.rename(_origin(node), input=name, output=output, shape=self._shape(output))

    def _constant_node(self, node: Any) -> None:
        value = _attributes(node).get("value")
        if value is None:
            raise _origin(node).refused("a constant that is not a tensor")
        self._constants[node.output[0]] = onnx.numpy_helper.to_array(value)

    def _geometry(
        self, node: Any, attributes: Mapping[str, Any], kernel: tuple[int, int], source: Shape
    ) -> dict[str, Any]:
        stride = _pair(attributes.get("strides", (1, 1)))
        pads = attributes.get("pads", (0, 0, 0, 0))
        if len(pads) == 2:
            pads = (0, pads[0], 0, pads[1])
        how = attributes.get("auto_pad", b"NOTSET")
        if how in (b"SAME_UPPER", b"SAME_LOWER"):
            pads = _same_pads(source, kernel, stride, upper=how == b"SAME_UPPER")
        elif how not in (b"NOTSET", b"VALID"):
            raise _origin(node).refused(f"auto_pad {how!r}")
        check_pads(_origin(node), pads, kernel)
        return {"stride": stride, "pads": tuple(int(p) for p in pads)}

    def _shape(self, name: str) -> Shape:
        dims = self._shapes.get(name, ())
        if len(dims) < 2 or len(dims) > 4 or dims[0] != 1 or min(dims) < 1:
            raise UnsupportedLayerError(
                f"tensor {printable(name)} of shape {dims}: a head works on one sample of fixed "
                "shape with 1 to 3 axes"
            )
        rows, columns = (1, 1, *dims[2:])[-2:]
        return Shape(rows, columns, dims[1])

    def _constant(self, node: Any, index: int) -> Any:
        value = self._constants.get(node.input[index])
        if value is None:
            raise _origin(node).refused("weights that are not constant")
        return value

    def _bias(self, node: Any, index: int, size: int) -> Floats:
        if len(node.input) <= index or not node.input[index]:
            return np.zeros(size, dtype=np.float32)
        found: Floats = np.broadcast_to(self._constant(node, index).reshape(-1), (size,))
        return found


_READERS: Final[Mapping[str, Callable[[_Reader, Any], None]]] = {
    "Conv": _Reader._convolution,
    "Gemm": _Reader._gemm,
    "MatMul": _Reader._matmul,
    "Add": _Reader._addition,
    "MaxPool": _Reader._pool,
    "AveragePool": _Reader._pool,
    "GlobalMaxPool": _Reader._global_pool,
    "GlobalAveragePool": _Reader._global_pool,
    "ReduceMean": _Reader._mean,
    "Relu": _Reader._clamp,
    "Clip": _Reader._clamp,
    "Identity": _Reader._rename,
    "Dropout": _Reader._rename,
    "Flatten": _Reader._rename,
    "Reshape": _Reader._rename,
    "Squeeze": _Reader._rename,
    "Unsqueeze": _Reader._rename,
    "Constant": _Reader._constant_node,
}


def _attributes(node: Any) -> dict[str, Any]:
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


def _origin(node: Any) -> Origin:
    name = node.name or (node.output[0] if node.output else "?")
    return Origin(printable(name), printable(node.op_type))


def _pair(values: Any) -> tuple[int, int]:
    rows, columns = (1, *values) if len(values) == 1 else values
    return int(rows), int(columns)


def _same_pads(
    source: Shape, kernel: tuple[int, int], stride: tuple[int, int], *, upper: bool
) -> tuple[int, int, int, int]:
    """Begin and end pads that leave ceil(size / stride) windows (ONNX, operator Conv)."""
    begins, ends = [], []
    for size, k, s in zip((source.h, source.w), kernel, stride, strict=True):
        total = max(0, (-(-size // s) - 1) * s + k - size)
        small, large = total // 2, total - total // 2
        begins.append(small if upper else large)
        ends.append(large if upper else small)
    return begins[0], begins[1], ends[0], ends[1]
