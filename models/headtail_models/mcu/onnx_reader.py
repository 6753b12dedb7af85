"""An ONNX head as a `HeadGraph`.

ONNX Runtime first folds what can be folded without changing the result (batch normalisation into
convolutions, constants, identities); what is left is read node by node.
"""

import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnxruntime

from headtail_fabric.errors import ConfigError
from headtail_fabric.logs import printable
from headtail_models.mcu.errors import UnsupportedLayerError
from headtail_models.mcu.layers import Floats, HeadGraph, Layer, LayerKind, Shape

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
    """One pass over the nodes; `_storage` says under which name a tensor's values lie."""

    def __init__(self, model: Any) -> None:
        graph = model.graph
        self._graph = graph
        self._constants = {i.name: onnx.numpy_helper.to_array(i) for i in graph.initializer}
        self._shapes = {
            value.name: tuple(d.dim_value for d in value.type.tensor_type.shape.dim)
            for value in [*graph.input, *graph.value_info, *graph.output]
        }
        self._layers: dict[str, Layer] = {}
        self._storage: dict[str, str] = {}
        self._flat: dict[str, Shape] = {}
        self._readers = Counter(name for node in graph.node for name in node.input)
        self._readers.update(value.name for value in graph.output)

    def graph(self) -> HeadGraph:
        """Raises UnsupportedLayerError."""
        inputs = [v.name for v in self._graph.input if v.name not in self._constants]
        if len(inputs) != 1:
            raise UnsupportedLayerError(f"the model has {len(inputs)} inputs, a head has one")
        self._storage[inputs[0]] = inputs[0]
        for node in self._graph.node:
            self._read(node)
        outputs = {}
        for value in self._graph.output:
            stored = self._storage.get(value.name)
            if stored is None or stored not in self._layers:
                raise UnsupportedLayerError(f"output {printable(value.name)} is not computed")
            outputs[stored] = self._layers[stored].shape
        return HeadGraph(
            input=inputs[0],
            input_shape=self._shape(inputs[0]),
            layers=tuple(self._layers.values()),
            outputs=outputs,
        )

    def _read(self, node: Any) -> None:
        reader = _READERS.get(node.op_type)
        if reader is None or node.domain not in ("", "ai.onnx"):
            raise self._refused(node, "no kernel for it")
        if node.op_type != "Constant" and self._source(node) is None:
            raise self._refused(node, "its input is a constant")
        reader(self, node)

    def _convolution(self, node: Any) -> None:
        attributes = _attributes(node)
        weights = self._constant(node, 1)
        spatial = weights.ndim - 2
        if spatial not in (1, 2):
            raise self._refused(node, f"{spatial} spatial axes")
        if any(d != 1 for d in attributes.get("dilations", ())):
            raise self._refused(node, "dilation")
        if spatial == 1:
            weights = weights[:, :, np.newaxis]
        source, groups = self._shape(node.input[0]), attributes.get("group", 1)
        out, depth = weights.shape[:2]
        if groups == 1:
            kind, weights = LayerKind.CONVOLUTION, weights.transpose(0, 2, 3, 1)
        elif groups == source.c == out and depth == 1:
            kind, weights = LayerKind.DEPTHWISE, weights[:, 0]
        else:
            raise self._refused(node, f"{groups} groups of {source.c} channels in, {out} out")
        kernel = (int(weights.shape[1]), int(weights.shape[2]))
        self._append(
            node,
            kind,
            kernel=kernel,
            weights=_floats(weights),
            bias=self._bias(node, 2, out),
            **self._geometry(node, attributes, kernel, source),
        )

    def _gemm(self, node: Any) -> None:
        attributes = _attributes(node)
        scales = attributes.get("alpha", 1.0), attributes.get("beta", 1.0)
        if attributes.get("transA", 0) or scales != (1.0, 1.0):
            raise self._refused(node, "transA, alpha or beta")
        weights = self._constant(node, 1)
        out_first = weights if attributes.get("transB", 0) else weights.T
        self._dense(node, out_first, self._bias(node, 2, out_first.shape[0]))

    def _matmul(self, node: Any) -> None:
        weights = self._constant(node, 1)
        if weights.ndim != 2:
            raise self._refused(node, "weights that are not a matrix")
        self._dense(node, weights.T, np.zeros(weights.shape[1], dtype=np.float32))

    def _dense(self, node: Any, weights: Any, bias: Floats) -> None:
        name = node.input[0]
        if len(self._shapes[name]) != 2:
            raise self._refused(node, f"input of shape {self._shapes[name]}, not flat")
        before = self._flat.get(name, self._shape(name))
        # ONNX flattened channels first; the board's values lie channels last.
        ordered = weights.reshape(-1, before.c, before.h, before.w).transpose(0, 2, 3, 1)
        self._append(
            node,
            LayerKind.CONVOLUTION,
            source=Shape(1, 1, before.size),
            weights=_floats(ordered.reshape(-1, 1, 1, before.size)),
            bias=bias,
        )

    def _addition(self, node: Any) -> None:
        names = [self._storage.get(name) for name in node.input]
        if None in names or self._shape(node.input[0]) != self._shape(node.input[1]):
            raise self._refused(node, "addition of a constant or of unlike shapes")
        if self._flat.get(node.input[0]) != self._flat.get(node.input[1]):
            raise self._refused(node, "addition of tensors flattened from unlike shapes")
        if self._flat.get(node.input[0]) is not None:
            self._flat[node.output[0]] = self._flat[node.input[0]]
        self._append(node, LayerKind.ADDITION, inputs=tuple(str(name) for name in names))

    def _pool(self, node: Any) -> None:
        attributes = _attributes(node)
        kernel = _pair(attributes["kernel_shape"])
        if attributes.get("ceil_mode", 0) or any(d != 1 for d in attributes.get("dilations", ())):
            raise self._refused(node, "ceil_mode or dilation")
        geometry = self._geometry(node, attributes, kernel, self._shape(node.input[0]))
        average = node.op_type == "AveragePool"
        if average and any(geometry["pads"]) and not attributes.get("count_include_pad", 0):
            raise self._refused(node, "padding that does not count (count_include_pad=0)")
        kind = LayerKind.AVERAGE_POOL if average else LayerKind.MAX_POOL
        self._append(node, kind, kernel=kernel, **geometry)

    def _global_pool(self, node: Any) -> None:
        source = self._shape(node.input[0])
        peak = node.op_type == "GlobalMaxPool"
        kind = LayerKind.MAX_POOL if peak else LayerKind.AVERAGE_POOL
        self._append(node, kind, kernel=(source.h, source.w))

    def _mean(self, node: Any) -> None:
        axes = _attributes(node).get("axes")
        if axes is None and len(node.input) > 1:
            axes = self._constant(node, 1).tolist()
        rank = len(self._shapes[node.input[0]])
        if axes is None or tuple(sorted(a % rank for a in axes)) != tuple(range(2, rank)):
            raise self._refused(node, f"mean over axes {axes}, not over all rows and columns")
        self._global_pool(node)

    def _clamp(self, node: Any) -> None:
        """Into the layer before where nobody else reads that, else a layer of its own."""
        low, high = _RELU
        if node.op_type == "Clip":
            bounds = [
                float(self._constant(node, i)) if len(node.input) > i and node.input[i] else None
                for i in (1, 2)
            ]
            low = -np.inf if bounds[0] is None else bounds[0]
            high = np.inf if bounds[1] is None else bounds[1]
        name, output = self._source(node), node.output[0]
        if node.input[0] in self._flat:
            self._flat[output] = self._flat[node.input[0]]
        layer = self._layers.get(name or "")
        if layer is None or self._readers[node.input[0]] > 1 or name != node.input[0]:
            self._append(node, LayerKind.ADDITION, clamp=(low, high))
            return
        clamp = (max(layer.clamp[0], low), min(layer.clamp[1], high))
        del self._layers[layer.output]
        self._layers[output] = replace(layer, output=output, clamp=clamp)
        self._storage[output] = output

    def _rename(self, node: Any) -> None:
        """Identity, and what only changes the shape of values whose order stays."""
        name, output = node.input[0], node.output[0]
        before, after = self._flat.get(name, self._shape(name)), self._shape(output)
        if after.size != before.size or (after != before and after != Shape(1, 1, before.size)):
            raise self._refused(node, f"{before} to {after}")
        if after != before:
            self._flat[output] = before
        self._storage[output] = self._storage[name]

    def _constant_node(self, node: Any) -> None:
        value = _attributes(node).get("value")
        if value is None:
            raise self._refused(node, "a constant that is not a tensor")
        self._constants[node.output[0]] = onnx.numpy_helper.to_array(value)

    def _append(self, node: Any, kind: LayerKind, **fields: Any) -> None:
        output = node.output[0]
        layer = Layer(
            **{
                "name": printable(node.name or output),
                "kind": kind,
                "inputs": (self._source(node),),
                "output": output,
                "source": self._shape(node.input[0]),
                "shape": self._shape(output),
                **fields,
            }
        )
        self._layers[output] = layer
        self._storage[output] = output

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
            raise self._refused(node, f"auto_pad {how!r}")
        if any(not 0 <= pad < size for pad, size in zip(pads, kernel + kernel, strict=True)):
            raise self._refused(node, f"pads {tuple(pads)} of a window {kernel}")
        return {"stride": stride, "pads": tuple(int(p) for p in pads)}

    def _source(self, node: Any) -> str | None:
        return self._storage.get(node.input[0])

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
            raise self._refused(node, "weights that are not constant")
        return value

    def _bias(self, node: Any, index: int, size: int) -> Floats:
        if len(node.input) <= index or not node.input[index]:
            return np.zeros(size, dtype=np.float32)
        return _floats(np.broadcast_to(self._constant(node, index).reshape(-1), (size,)))

    def _refused(self, node: Any, why: str) -> UnsupportedLayerError:
        name = printable(node.name or (node.output[0] if node.output else "?"))
        return UnsupportedLayerError(f"layer {name} ({printable(node.op_type)}): {why}")


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


def _floats(values: Any) -> Floats:
    return np.ascontiguousarray(values, dtype=np.float32)


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
