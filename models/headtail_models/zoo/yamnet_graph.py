"""YAMNet as one ONNX file of floats, to be cut like any other model."""

from typing import Any, Final

from headtail_models.zoo.errors import MissingExtraError
from headtail_models.zoo.yamnet_layers import CLASSES, PATCH, Convolution, Yamnet

try:
    from onnx import TensorProto, helper, numpy_helper
except ImportError as missing:
    raise MissingExtraError(
        f"building a bundle needs {missing.name}: pip install 'headtail[build]'"
    ) from None

OPSET: Final = 17
IR_VERSION: Final = 8
INPUT: Final = "patch"
OUTPUT: Final = "logits"


def layer_name(number: int) -> str:
    """The tensor that layer L`number` puts out."""
    return f"L{number}" if number else INPUT


def graph(network: Yamnet) -> Any:
    """The whole network as `onnx.ModelProto` with a free batch axis."""
    nodes, parameters = [], []
    at = INPUT
    for number, steps in enumerate(network.layers, start=1):
        for part, step in enumerate(steps, start=1):
            last = part == len(steps)
            name = layer_name(number) if last else f"{layer_name(number)}.depthwise"
            nodes += _convolution(step, at, name)
            parameters += [
                numpy_helper.from_array(step.kernel, f"{name}.kernel"),
                numpy_helper.from_array(step.bias, f"{name}.bias"),
            ]
            at = name
    nodes += [
        helper.make_node("GlobalAveragePool", [at], ["mean"], "mean"),
        helper.make_node("Flatten", ["mean"], ["embedding"], "embedding"),
        helper.make_node(
            "Gemm", ["embedding", "classifier", "classifier.bias"], [OUTPUT], OUTPUT, transB=1
        ),
    ]
    parameters += [
        numpy_helper.from_array(network.classifier, "classifier"),
        numpy_helper.from_array(network.bias, "classifier.bias"),
    ]
    return helper.make_model(
        helper.make_graph(
            nodes,
            "yamnet",
            [helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, ["batch", *PATCH])],
            [helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, ["batch", CLASSES])],
            parameters,
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="headtail",
    )


def _convolution(step: Convolution, source: str, output: str) -> list[Any]:
    begin, end = step.pads
    return [
        helper.make_node(
            "Conv",
            [source, f"{output}.kernel", f"{output}.bias"],
            [f"{output}.linear"],
            f"{output}.linear",
            kernel_shape=list(step.kernel.shape[2:]),
            strides=[step.stride] * 2,
            pads=[begin, begin, end, end],
            group=step.groups,
        ),
        helper.make_node("Relu", [f"{output}.linear"], [output], output),
    ]
