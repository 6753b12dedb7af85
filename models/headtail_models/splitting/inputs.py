"""What a model takes, with a size for every axis but the batch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from headtail_fabric.codec.base import Array
from headtail_fabric.logs import printable
from headtail_models.splitting.errors import FreeAxisError, SplitError, UnknownTensorError

Shapes = Mapping[str, tuple[int, ...]]
"""Sizes of inputs by name, the batch axis among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSpec:
    """An input. `shape` has the batch axis first where there is one; `free_batch`: any number of
    frames may come, and `shape[0]` is 1."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    free_batch: bool

    def sized(self, batch: int) -> tuple[int, ...]:
        """The shape for that many frames."""
        return (batch, *self.shape[1:]) if self.free_batch else self.shape


def input_specs(model: Any, shapes: Shapes) -> tuple[InputSpec, ...]:
    """The inputs of a normalised model. Axes of the same name in the model have the same size.

    Raises FreeAxisError, UnknownTensorError when `shapes` names no input, SplitError.
    """
    given = {one.name: one for one in model.graph.input}
    for name in shapes:
        if name not in given:
            raise UnknownTensorError(
                f"{printable(name)!r} is no input; there are: {_list(given)}", name=name
            )
    named: dict[str, int] = {}
    for name, sizes in shapes.items():
        tensor = given[name].type.tensor_type
        if tensor.HasField("shape") and len(tensor.shape.dim) != len(sizes):
            raise SplitError(f"input {name!r} has {len(tensor.shape.dim)} axes, not {len(sizes)}")
        for axis, size in zip(tensor.shape.dim, sizes, strict=False):
            if axis.dim_param:
                named[axis.dim_param] = size
    return tuple(_spec(one, shapes.get(one.name), named) for one in model.graph.input)


def free_first_axes(model: Any) -> None:
    """Free the first axis of every input where it is 1, and forget the outputs' shapes."""
    for one in model.graph.input:
        axes = one.type.tensor_type.shape.dim
        if axes and axes[0].dim_value == 1:
            axes[0].Clear()
    for one in model.graph.output:
        one.type.tensor_type.ClearField("shape")


def bind(model: Any, specs: Sequence[InputSpec], batch: int | None) -> Any:
    """A copy of the model, its inputs sized for `batch` frames; None leaves the batch axis free."""
    bound = onnx.ModelProto()
    bound.CopyFrom(model)
    for proto, spec in zip(bound.graph.input, specs, strict=True):
        shape: list[int | str] = list(spec.sized(batch or 1))
        if batch is None and spec.free_batch:
            shape[0] = "batch"
        proto.type.tensor_type.shape.CopyFrom(_shape(shape))
    del bound.graph.value_info[:]
    return bound


def random_inputs(specs: Sequence[InputSpec], *, batch: int = 1, seed: int = 0) -> dict[str, Array]:
    """Numbers in [0, 1) for floats, 0 and 1 for whole numbers: valid as indices and as masks."""
    draw = np.random.default_rng(seed)
    found: dict[str, Array] = {}
    for spec in specs:
        dtype, shape = np.dtype(spec.dtype), spec.sized(batch)
        values = draw.random(shape) if dtype.kind == "f" else draw.integers(0, 2, shape)
        found[spec.name] = np.asarray(values).astype(dtype)
    return found


def _spec(proto: Any, sizes: tuple[int, ...] | None, named: Mapping[str, int]) -> InputSpec:
    tensor = proto.type.tensor_type
    dtype = dtype_name(tensor.elem_type)
    if not proto.type.HasField("tensor_type") or dtype is None:
        raise SplitError(f"input {printable(proto.name)!r} is not a tensor of numbers")
    if not tensor.HasField("shape") and sizes is None:
        raise FreeAxisError(f"input {printable(proto.name)!r} has no shape", name=proto.name)
    axes = list(tensor.shape.dim)
    free_batch = bool(axes) and not axes[0].HasField("dim_value")
    shape: list[int] = []
    for at in range(len(axes) if sizes is None else len(sizes)):
        axis = axes[at] if at < len(axes) else None
        if axis is not None and axis.HasField("dim_value"):
            size = axis.dim_value
            if sizes is not None and sizes[at] != size:
                raise SplitError(f"input {proto.name!r} has {size} on axis {at}, not {sizes[at]}")
        elif at == 0 and free_batch:
            size = 1
        elif sizes is not None:
            size = sizes[at]
        elif axis is not None and axis.dim_param in named:
            size = named[axis.dim_param]
        else:
            told = axis.dim_param if axis is not None and axis.dim_param else str(at)
            raise FreeAxisError(
                f"input {printable(proto.name)!r} has the free axis {printable(told)!r}",
                name=proto.name,
            )
        if size < 1:
            raise SplitError(f"input {printable(proto.name)!r} has {size} on axis {at}")
        shape.append(size)
    return InputSpec(name=proto.name, dtype=dtype, shape=tuple(shape), free_batch=free_batch)


def dtype_name(element: int) -> str | None:
    """NumPy's name of an ONNX element type; None for text and for what NumPy itself lacks."""
    try:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(element)
    except (KeyError, ValueError, TypeError):
        return None
    return dtype.name if dtype.kind in "fiub" and dtype.isbuiltin == 1 else None


def _shape(sizes: Sequence[int | str]) -> Any:
    shape = onnx.TensorShapeProto()
    for size in sizes:
        axis = shape.dim.add()
        if isinstance(size, int):
            axis.dim_value = size
        else:
            axis.dim_param = size
    return shape


def _list(names: Mapping[str, object]) -> str:
    return ", ".join(printable(name) for name in names)
