"""MobileNetV2 as numbers, norms folded, and as one ONNX file of floats to be cut like any other.

    image (3, 224, 224) -> f0 .. f18 -> mean over places -> classifier -> logits (1000,)

f0 and f18 are convolutions; between them each block widens (but for f1), filters each channel and
narrows, and is added to its input where the shapes allow.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from headtail_models.zoo.errors import MissingExtraError
from headtail_models.zoo.mobilenet_v2_errors import WeightsError

try:
    from onnx import TensorProto, helper, numpy_helper
except ImportError as missing:
    raise MissingExtraError(
        f"building a bundle needs {missing.name}: pip install 'headtail[build]'"
    ) from None

OPSET: Final = 17
IR_VERSION: Final = 8
SIDE: Final = 224
CLASSES: Final = 1000
BLOCKS: Final = 19
INPUT: Final = "image"
OUTPUT: Final = "logits"
_STRIDED: Final = (0, 2, 4, 7, 14)
"""The blocks that halve both sides."""
_EPSILON: Final = 1e-5
"""That of torch's batch norm."""

Floats = NDArray[np.float32]
Parameters = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Convolution:
    """`kernel` (out, in / groups, k, k), `bias` (out,); `bounded`: a ReLU6 follows."""

    kernel: Floats
    bias: Floats
    stride: int
    groups: int
    bounded: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Block:
    """Convolutions one after the other; `residual`: the input is added to what they give."""

    steps: tuple[Convolution, ...]
    residual: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Network:
    """`classifier` (1000, 1280), `bias` (1000,)."""

    blocks: tuple[Block, ...]
    classifier: Floats
    bias: Floats


def block_name(number: int) -> str:
    """The tensor that block `number` puts out."""
    return f"f{number}"


def network_of(parameters: Parameters) -> Network:
    """The network of parameters by torchvision's names. Raises WeightsError."""
    try:
        blocks, width = [], 3
        for number in range(BLOCKS):
            block = _block(parameters, number, width)
            width = block.steps[-1].bias.size
            blocks.append(block)
        return Network(
            blocks=tuple(blocks),
            classifier=_checked(parameters["classifier.1.weight"], (CLASSES, width)),
            bias=_checked(parameters["classifier.1.bias"], (CLASSES,)),
        )
    except KeyError as error:
        raise WeightsError(f"there is no parameter {error}") from None


def graph(network: Network) -> Any:
    """The whole network as `onnx.ModelProto` with a free batch axis."""
    nodes, weights, at = [], [], INPUT
    for number, block in enumerate(network.blocks):
        name = block_name(number)
        inner = f"{name}.inner" if block.residual else name
        source = at
        for part, step in enumerate(block.steps):
            output = inner if part == len(block.steps) - 1 else f"{name}.{part}"
            label = f"{name}.{part}"
            weights += [
                numpy_helper.from_array(step.kernel, f"{label}.kernel"),
                numpy_helper.from_array(step.bias, f"{label}.bias"),
            ]
            nodes += _convolution(step, label, source, output)
            source = output
        if block.residual:
            nodes.append(helper.make_node("Add", [at, inner], [name], name))
        at = name
    nodes += [
        helper.make_node("GlobalAveragePool", [at], ["mean"], "mean"),
        helper.make_node("Flatten", ["mean"], ["embedding"], "embedding"),
        helper.make_node(
            "Gemm", ["embedding", "classifier", "classifier.bias"], [OUTPUT], OUTPUT, transB=1
        ),
    ]
    weights += [
        numpy_helper.from_array(np.array(0, dtype=np.float32), "least"),
        numpy_helper.from_array(np.array(6, dtype=np.float32), "most"),
        numpy_helper.from_array(network.classifier, "classifier"),
        numpy_helper.from_array(network.bias, "classifier.bias"),
    ]
    return helper.make_model(
        helper.make_graph(
            nodes,
            "mobilenet-v2",
            [helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, ["batch", 3, SIDE, SIDE])],
            [helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, ["batch", CLASSES])],
            weights,
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="headtail",
    )


def _block(parameters: Parameters, number: int, width: int) -> Block:
    names = list(_convolution_names(parameters, f"features.{number}"))
    steps = []
    for at, (convolution, norm) in enumerate(names):
        kernel = parameters[f"{convolution}.weight"]
        depthwise = kernel.ndim == 4 and kernel.shape[1] == 1 and kernel.shape[2] == 3
        steps.append(
            _folded(
                parameters,
                convolution,
                norm,
                stride=2 if number in _STRIDED and kernel.shape[-1] == 3 else 1,
                groups=kernel.shape[0] if depthwise else 1,
                # The last convolution of a block is linear.
                bounded=len(names) == 1 or at < len(names) - 1,
            )
        )
        if steps[-1].kernel.shape[1] * steps[-1].groups != width:
            raise WeightsError(f"{convolution} takes another number of channels than {width}")
        width = steps[-1].bias.size
    first = names[0][0] + ".weight"
    residual = (
        len(names) > 1
        and number not in _STRIDED
        and steps[-1].bias.size == parameters[first].shape[1] * steps[0].groups
    )
    return Block(steps=tuple(steps), residual=residual)


def _convolution_names(parameters: Parameters, block: str) -> Iterator[tuple[str, str]]:
    """A block's convolutions and the norms behind them, in order."""
    if f"{block}.0.weight" in parameters:
        yield f"{block}.0", f"{block}.1"
        return
    at = 0
    while f"{block}.conv.{at}.0.weight" in parameters:
        yield f"{block}.conv.{at}.0", f"{block}.conv.{at}.1"
        at += 1
    yield f"{block}.conv.{at}", f"{block}.conv.{at + 1}"


def _folded(
    parameters: Parameters, convolution: str, norm: str, *, stride: int, groups: int, bounded: bool
) -> Convolution:
    kernel = parameters[f"{convolution}.weight"]
    if kernel.ndim != 4:
        raise WeightsError(f"{convolution} has a kernel of shape {kernel.shape}")
    scale, shift, mean, variance = (
        _checked(parameters[f"{norm}.{name}"], kernel.shape[:1]).astype(np.float64)
        for name in ("weight", "bias", "running_mean", "running_var")
    )
    factor = scale / np.sqrt(variance + _EPSILON)
    return Convolution(
        kernel=(kernel * factor[:, np.newaxis, np.newaxis, np.newaxis]).astype(np.float32),
        bias=(shift - mean * factor).astype(np.float32),
        stride=stride,
        groups=groups,
        bounded=bounded,
    )


def _checked(values: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    if values.shape != shape or not np.isfinite(values).all():
        raise WeightsError(f"numbers of shape {values.shape}, {shape} are expected, all finite")
    return values


def _convolution(step: Convolution, label: str, source: str, output: str) -> list[Any]:
    side = step.kernel.shape[2]
    linear = f"{label}.linear" if step.bounded else output
    nodes = [
        helper.make_node(
            "Conv",
            [source, f"{label}.kernel", f"{label}.bias"],
            [linear],
            linear,
            kernel_shape=[side, side],
            strides=[step.stride] * 2,
            pads=[side // 2] * 4,
            group=step.groups,
        )
    ]
    if step.bounded:
        nodes.append(helper.make_node("Clip", [linear, "least", "most"], [output], output))
    return nodes
