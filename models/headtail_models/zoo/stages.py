"""ONNX files for parts of a network, that share one file of weights.

A stage is the run of layers between two places where a single tensor crosses. Its file holds the
graph only; each parameter points into `weights.bin` by offset and length (ONNX external data), so
all cuts of a network together are little larger than the network.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from headtail_models.bundle.manifest import StageEntry, TensorSpec
from headtail_models.zoo.darknet import (
    Convolution,
    MaxPool,
    Network,
    Route,
    Upsample,
    Yolo,
)
from headtail_models.zoo.errors import MissingExtraError

try:
    import onnx
    from onnx import TensorProto, helper
except ImportError as missing:
    raise MissingExtraError(
        f"building a bundle needs {missing.name}: pip install 'headtail[build]'"
    ) from None

OPSET: Final = 17
IR_VERSION: Final = 8
"""Both far older than onnxruntime 1.18, the oldest that is supported."""
ALIGNMENT: Final = 4096
"""A page, so that a runtime can map each parameter straight from the file."""
IMAGE: Final = "image"
WEIGHTS: Final = "weights.bin"


def cut_points(network: Network) -> tuple[int, ...]:
    """The layers after which one tensor alone crosses and no output lies before, in order."""
    readers: dict[int, list[int]] = {}
    for index in range(len(network.layers)):
        for source in network.sources(index):
            readers.setdefault(source, []).append(index)
    found: list[int] = []
    for index, following in enumerate(network.layers[1:]):
        if isinstance(following, Yolo):
            break
        crossing = {
            source
            for source, used_by in readers.items()
            if source <= index and any(reader > index for reader in used_by)
        }
        if crossing == {index}:
            found.append(index)
    return tuple(found)


def cut_name(layer: int) -> str:
    """The name of the cut after a layer, and of the tensor that crosses there."""
    return f"L{layer}"


def stride(network: Network, layer: int) -> int:
    """Input pixels per cell of a layer's output."""
    return network.input_shape[1] // network.shapes[layer][1]


def map_name(network: Network, layer: int) -> str:
    """The name of the output map that a Yolo layer stands for."""
    return f"stride{stride(network, layer)}"


def _tensor_names(network: Network) -> dict[int, str]:
    """The tensor that holds each layer's output; -1 is the image."""
    names = {-1: IMAGE}
    for index, layer in enumerate(network.layers):
        if isinstance(layer, Yolo):
            names[index] = names[index - 1] = map_name(network, index)
        elif isinstance(layer, Route) and len(layer.sources) == 1:
            names[index] = names[layer.sources[0]]
        else:
            names[index] = cut_name(index)
    return names


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """Where a parameter lies in the file of weights."""

    offset: int
    size_bytes: int
    shape: tuple[int, ...]


def write_weights(network: Network, path: Path) -> dict[str, Parameter]:
    """Write every parameter once, each at a page's border, and say where it is."""
    table: dict[str, Parameter] = {}
    with path.open("wb") as file:
        for index, layer in enumerate(network.layers):
            if not isinstance(layer, Convolution):
                continue
            for kind, values in (("kernel", layer.kernel), ("bias", layer.bias)):
                file.write(b"\0" * (-file.tell() % ALIGNMENT))
                data = np.ascontiguousarray(values, dtype="<f4").tobytes()
                table[f"{cut_name(index)}.{kind}"] = Parameter(
                    offset=file.tell(), size_bytes=len(data), shape=values.shape
                )
                file.write(data)
    return table


def write_stage(
    network: Network,
    path: Path,
    *,
    after: int,
    until: int | None,
    parameters: Mapping[str, Parameter],
) -> StageEntry:
    """Write layers `after` + 1 .. `until` as an ONNX file beside the weights.

    `after` -1 begins at the image. `until` None goes to the end: the outputs are the Yolo
    layers' maps; else the output of layer `until`. The batch axis is dynamic.
    """
    last = len(network.layers) - 1 if until is None else until
    layers = range(after + 1, last + 1)
    names = _tensor_names(network)
    graph = _Graph(names, parameters)
    for index in layers:
        graph.add(network, index)
    ends = [index for index in layers if isinstance(network.layers[index], Yolo)]
    inputs = (_spec(network, names, after),)
    outputs = tuple(_spec(network, names, end) for end in (ends if until is None else [until]))
    model = graph.model(path.stem, inputs, outputs)
    path.write_bytes(model.SerializeToString(deterministic=True))
    macs = sum(network.macs(index) for index in layers)
    return StageEntry(file=path.name, inputs=inputs, outputs=outputs, macs=macs)


def _spec(network: Network, names: Mapping[int, str], layer: int) -> TensorSpec:
    shape = network.shapes[layer] if layer >= 0 else network.input_shape
    return TensorSpec(name=names[layer], dtype="float32", shape=shape)


class _Graph:
    """The nodes of one stage, added layer by layer."""

    def __init__(self, names: Mapping[int, str], parameters: Mapping[str, Parameter]) -> None:
        self._names = names
        self._parameters = parameters
        self._nodes: list[onnx.NodeProto] = []
        self._initializers: list[onnx.TensorProto] = []

    def add(self, network: Network, index: int) -> None:
        """Add one layer; its inputs were added before or are the stage's input."""
        layer, output = network.layers[index], self._names[index]
        inputs = [self._names[source] for source in network.sources(index)]
        if isinstance(layer, Convolution):
            self._convolution(layer, index, inputs[0], output)
        elif isinstance(layer, MaxPool):
            self._max_pool(layer, inputs[0], output)
        elif isinstance(layer, Upsample):
            self._upsample(layer, inputs[0], output)
        elif isinstance(layer, Route) and len(inputs) > 1:
            self._node("Concat", inputs, output, axis=1)

    def model(
        self, name: str, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]
    ) -> onnx.ModelProto:
        """The stage as an ONNX model."""
        graph = helper.make_graph(
            self._nodes,
            name,
            [_value_info(spec) for spec in inputs],
            [_value_info(spec) for spec in outputs],
            self._initializers,
        )
        return helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name="headtail",
        )

    def _convolution(self, layer: Convolution, index: int, source: str, output: str) -> None:
        kernel, bias = f"{cut_name(index)}.kernel", f"{cut_name(index)}.bias"
        self._external(kernel)
        self._external(bias)
        side = layer.kernel.shape[2]
        linear = f"{output}.linear" if layer.leaky else output
        self._node(
            "Conv",
            [source, kernel, bias],
            linear,
            kernel_shape=[side, side],
            strides=[layer.stride] * 2,
            pads=[layer.padding] * 4,
        )
        if layer.leaky:
            self._node("LeakyRelu", [linear], output, alpha=0.1)

    def _max_pool(self, layer: MaxPool, source: str, output: str) -> None:
        begin = layer.padding // 2
        end = layer.padding - begin
        self._node(
            "MaxPool",
            [source],
            output,
            kernel_shape=[layer.size] * 2,
            strides=[layer.stride] * 2,
            pads=[begin, begin, end, end],
        )

    def _upsample(self, layer: Upsample, source: str, output: str) -> None:
        scales = f"{output}.scales"
        factors = [1.0, 1.0, float(layer.factor), float(layer.factor)]
        self._initializers.append(helper.make_tensor(scales, TensorProto.FLOAT, [4], factors))
        self._node(
            "Resize",
            [source, "", scales],
            output,
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        )

    def _node(self, kind: str, inputs: Sequence[str], output: str, **attributes: Any) -> None:
        self._nodes.append(helper.make_node(kind, inputs, [output], output, **attributes))

    def _external(self, name: str) -> None:
        place = self._parameters[name]
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=place.shape)
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (
            ("location", WEIGHTS),
            ("offset", place.offset),
            ("length", place.size_bytes),
        ):
            tensor.external_data.add(key=key, value=str(value))
        self._initializers.append(tensor)


def _value_info(spec: TensorSpec) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(spec.name, TensorProto.FLOAT, ["batch", *spec.shape])
