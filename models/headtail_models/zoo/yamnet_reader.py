"""YAMNet out of the asset: an ONNX file with quantisation steps, its parameters beside it.

The parameters lie there as floats with batch normalisation folded in, in front of the nodes that
quantise them. Only they are taken; the graph is made anew.
"""

import csv
import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from headtail_models.zoo.errors import MissingExtraError
from headtail_models.zoo.yamnet_layers import (
    CLASSES,
    LAYERS,
    TOP,
    Convolution,
    Floats,
    Yamnet,
    YamnetError,
    convolutions,
)

try:
    import onnx
    from onnx import numpy_helper
    from onnx.external_data_helper import uses_external_data
except ImportError as missing:
    raise MissingExtraError(
        f"building a bundle needs {missing.name}: pip install 'headtail[build]'"
    ) from None

ARCHIVE: Final = "YamNet_w8a8.onnx.zip"
CLASS_MAP: Final = "yamnet_class_map.csv"
_GRAPH: Final = "model.onnx"
_DATA: Final = "model.data"
_MAX_BYTES: Final = 1 << 26


def read(files: Mapping[str, Path]) -> Yamnet:
    """The network of the asset's files. Raises YamnetError."""
    graph, data = _members(files[ARCHIVE])
    try:
        model = onnx.load_model_from_string(graph)
    except Exception as error:  # noqa: BLE001  protobuf's own error has no public name
        raise YamnetError(f"{ARCHIVE}: {_GRAPH} is not an ONNX file: {error}") from None
    return network(model, data)


def network(model: Any, data: bytes) -> Yamnet:
    """The network of an ONNX model whose large parameters lie in `data`. Raises YamnetError."""
    parameters = _Parameters(model.graph, data)
    nodes = [node for node in model.graph.node if node.op_type == "Conv"]
    plan = list(convolutions())
    if len(nodes) != len(plan):
        raise YamnetError(f"{len(nodes)} convolutions, YAMNet has {len(plan)}")
    layers: list[list[Convolution]] = [[] for _ in range(LAYERS)]
    for node, (number, kernel, stride, groups) in zip(nodes, plan, strict=True):
        step = Convolution(
            kernel=parameters.take(node.input[1], kernel),
            bias=parameters.take(node.input[2], kernel[:1]),
            stride=stride,
            groups=groups,
        )
        _check(node, step)
        layers[number - 1].append(step)
    last = [node for node in model.graph.node if node.op_type == "Gemm"]
    if len(last) != 1:
        raise YamnetError(f"{len(last)} classifiers")
    return Yamnet(
        layers=tuple(map(tuple, layers)),
        classifier=parameters.take(last[0].input[1], (CLASSES, TOP)),
        bias=parameters.take(last[0].input[2], (CLASSES,)),
    )


def labels(files: Mapping[str, Path]) -> tuple[str, ...]:
    """The names of the classes, in order. Raises YamnetError."""
    rows = csv.DictReader(io.StringIO(files[CLASS_MAP].read_text(encoding="utf-8")))
    names = tuple(row.get("display_name") or "" for row in rows)
    if len(names) != CLASSES or not all(names):
        raise YamnetError(f"{CLASS_MAP} names {len(names)} classes, {CLASSES} are expected")
    return names


def _members(path: Path) -> tuple[bytes, bytes]:
    """The graph and the parameters of the archive within the asset."""
    try:
        with zipfile.ZipFile(path) as archive:
            found = {Path(entry.filename).name: entry for entry in archive.infolist()}
            if sum(entry.file_size for entry in archive.infolist()) > _MAX_BYTES:
                raise YamnetError(f"{path.name} unpacks to more than {_MAX_BYTES} bytes")
            return archive.read(found[_GRAPH]), archive.read(found[_DATA])
    except (zipfile.BadZipFile, OSError, KeyError) as error:
        raise YamnetError(f"{path}: {error}") from None


def _check(node: Any, step: Convolution) -> None:
    given = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
    begin, end = step.pads
    wanted = {
        "strides": [step.stride] * 2,
        "group": step.groups,
        "pads": [begin, begin, end, end],
    }
    for name, value in wanted.items():
        if given.get(name) != value:
            raise YamnetError(f"convolution {node.name}: {name} is {given.get(name)}, not {value}")


class _Parameters:
    """The floats that a model's convolutions lead back to."""

    def __init__(self, graph: Any, data: bytes) -> None:
        self._tensors = {tensor.name: tensor for tensor in graph.initializer}
        self._sources = {
            node.output[0]: node.input[0]
            for node in graph.node
            if node.op_type in ("QuantizeLinear", "DequantizeLinear")
        }
        self._data = data

    def take(self, name: str, shape: tuple[int, ...]) -> Floats:
        for _ in range(2):
            name = self._sources.get(name, name)
        tensor = self._tensors.get(name)
        if tensor is None or tuple(tensor.dims) != shape:
            dims = None if tensor is None else tuple(tensor.dims)
            raise YamnetError(f"parameter {name!r} has shape {dims}, not {shape}")
        values = self._values(tensor)
        if values.dtype != np.float32 or values.shape != shape or not np.isfinite(values).all():
            raise YamnetError(f"parameter {name!r} is not made of finite floats")
        return values

    def _values(self, tensor: Any) -> Floats:
        try:
            if not uses_external_data(tensor):
                return np.array(numpy_helper.to_array(tensor))
            entries = {entry.key: entry.value for entry in tensor.external_data}
            start, size = int(entries.get("offset", 0)), 4 * int(np.prod(tensor.dims))
            if not 0 <= start <= len(self._data) - size:
                raise YamnetError(f"parameter {tensor.name!r} lies outside of {_DATA}")
            return np.frombuffer(self._data, "<f4", size // 4, start).reshape(tuple(tensor.dims))
        except ValueError as error:
            raise YamnetError(f"parameter {tensor.name!r}: {error}") from None
