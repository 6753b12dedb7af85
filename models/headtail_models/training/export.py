"""From a trained module to the ONNX file that is released and run.

Weights are rounded to half precision first, in the module itself, so that what is checked is what
is released: the file holds them as float16 with a Cast behind each, which the runtime folds away
when it loads, and is half as large.
"""

import io
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from headtail_fabric.errors import ConfigError
from headtail_models.stage import OnnxStage

OPSET: Final = 17
IR_VERSION: Final = 8
TOLERANCE: Final = 1e-4
BATCHES: Final = (1, 8)
_SMALLEST: Final = 64
"""Elements below which a tensor is not worth a node."""


class ExportError(ConfigError):
    """The exported stage does not compute what the module computes. Do not release it; the module
    uses an operation that is exported differently than it runs."""


def halve(module: nn.Module) -> None:
    """Round the weights of a module to half precision, in place."""
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.numel() >= _SMALLEST:
                parameter.copy_(parameter.half().float())


def export(
    module: nn.Module,
    path: Path,
    *,
    shape: tuple[int, ...],
    inputs: str,
    outputs: Sequence[str],
    seed: int = 0,
) -> float:
    """Write `module`, halved, as a stage whose one input is (N, *shape) float32; N is free.

    The largest difference to the module over batches of 1 and 8 random inputs, relative to the
    largest output, is returned. Raises ExportError when it is above 1e-4.
    """
    halve(module)
    module.eval()
    torch.manual_seed(seed)
    sample = torch.randn(2, *shape)
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        # The exporter by tracing is announced to be replaced; the other one needs onnxscript.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module,
            (sample,),
            buffer,  # type: ignore[arg-type]
            input_names=[inputs],
            output_names=list(outputs),
            dynamic_axes={name: {0: "batch"} for name in (inputs, *outputs)},
            opset_version=OPSET,
            dynamo=False,
        )
    model = onnx.load_from_string(buffer.getvalue())
    _store_halves(model)
    model.ir_version = IR_VERSION
    model.producer_name = "headtail"
    model.producer_version = ""
    model.graph.name = path.stem
    _fix_shapes(model, module, sample)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model.SerializeToString(deterministic=True))
    return _check(module, path, shape, inputs, outputs)


def _store_halves(model: onnx.ModelProto) -> None:
    casts = []
    for tensor in list(model.graph.initializer):
        if tensor.data_type != TensorProto.FLOAT:
            continue
        values = numpy_helper.to_array(tensor)
        half = values.astype(np.float16)
        if values.size < _SMALLEST or not np.array_equal(half.astype(np.float32), values):
            continue
        name = f"{tensor.name}.half"
        model.graph.initializer.remove(tensor)
        model.graph.initializer.append(numpy_helper.from_array(half, name))
        casts.append(helper.make_node("Cast", [name], [tensor.name], to=TensorProto.FLOAT))
    for cast in reversed(casts):
        model.graph.node.insert(0, cast)


def _fix_shapes(model: onnx.ModelProto, module: nn.Module, sample: torch.Tensor) -> None:
    """Say every axis but the first of the outputs, which the exporter leaves unnamed at times."""
    with torch.no_grad():
        found = module(sample)
    results = found if isinstance(found, tuple | list) else [found]
    for value, tensor in zip(model.graph.output, results, strict=True):
        value.CopyFrom(
            helper.make_tensor_value_info(
                value.name, TensorProto.FLOAT, ["batch", *tensor.shape[1:]]
            )
        )


def _check(
    module: nn.Module, path: Path, shape: tuple[int, ...], inputs: str, outputs: Sequence[str]
) -> float:
    stage = OnnxStage(path)
    worst = 0.0
    for batch in BATCHES:
        sample = torch.randn(batch, *shape)
        with torch.no_grad():
            wanted = module(sample)
        found = stage.run({inputs: sample.numpy()})
        tensors = wanted if isinstance(wanted, tuple | list) else [wanted]
        for name, tensor in zip(outputs, tensors, strict=True):
            scale = max(float(tensor.abs().max()), 1e-6)
            difference = float(np.abs(found[name] - tensor.numpy()).max()) / scale
            if not difference <= TOLERANCE:  # nor when it is no number
                raise ExportError(f"{path.name}, {name}: {difference:.2g} off, relative to itself")
            worst = max(worst, difference)
    return worst
