"""The type and shape of every tensor that might cross a cut.

By ONNX's shape inference where that gets through; where it does not, by running the model once
with its inner tensors as outputs. Both for one frame and for three, which shows what follows the
batch.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx

from headtail_models.splitting.errors import RefusedModelError
from headtail_models.splitting.inputs import InputSpec, bind, dtype_name, random_inputs
from headtail_models.splitting.runtime import Part

SEVERAL: Final = 3
_AT_ONCE: Final = 64
"""Inner tensors that are kept in memory together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """A tensor for one frame. `batched`: its first axis grows with the frames.

    `proven` False: the shape was only seen in one run, and may depend on what the input holds.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    batched: bool
    proven: bool = True

    @property
    def counts_frames(self) -> bool:
        """Whether the first axis is the number of frames itself."""
        return self.batched and self.shape[0] == 1

    @property
    def size_bytes(self) -> int:
        return prod(self.shape) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True, slots=True)
class _Look:
    """A tensor for one size of the batch."""

    dtype: str
    shape: tuple[int, ...]
    proven: bool


Seen = dict[str, _Look]


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """The tensors by name. `batches`: the numbers of frames at once that the model can take."""

    tensors: Mapping[str, Tensor]
    batches: tuple[int, ...]


def take_census(
    model: Any,
    specs: Sequence[InputSpec],
    wanted: Collection[str],
    folder: Path,
    *,
    sized: bool = True,
) -> Census:
    """`wanted` tensors of a normalised model whose weights lie in `folder`.

    Those that are no plain tensors of numbers are left out. `sized`: the inputs' sizes are written
    into the model first, which tells more. Raises RefusedModelError when the model can't run with
    one frame and inference leaves something open.
    """

    def of(batch: int) -> Any:
        return bind(model, specs, batch) if sized else model

    one = _look(of(1), specs, 1, wanted, folder)
    several: Seen = {}
    batches = [1]
    if any(spec.free_batch for spec in specs):
        try:
            several = _look(of(SEVERAL), specs, SEVERAL, wanted, folder)
            # Inference lets pass what fails only when it runs, such as a Reshape to one frame.
            outputs = [one.name for one in model.graph.output]
            _observed(of(SEVERAL), random_inputs(specs, batch=SEVERAL), outputs, folder)
            batches.append(SEVERAL)
        except RefusedModelError:
            several = {}  # the axis is free by name only
    return Census(
        tensors={
            name: Tensor(
                name=name,
                dtype=look.dtype,
                shape=look.shape,
                batched=_follows(look.shape, several.get(name)),
                proven=look.proven,
            )
            for name, look in one.items()
        },
        batches=tuple(batches),
    )


def _follows(one: tuple[int, ...], several: _Look | None) -> bool:
    return several is not None and bool(one) and several.shape == (one[0] * SEVERAL, *one[1:])


def _look(
    bound: Any, specs: Sequence[InputSpec], batch: int, wanted: Collection[str], folder: Path
) -> Seen:
    found = _inferred(bound)
    missing = [name for name in wanted if name not in found]
    if missing:
        found.update(_observed(bound, random_inputs(specs, batch=batch), missing, folder))
    return {name: found[name] for name in wanted if name in found}


def _inferred(bound: Any) -> Seen:
    try:
        graph = onnx.shape_inference.infer_shapes(bound, data_prop=True).graph
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError):
        return {}
    seen: Seen = {}
    for info in (*graph.input, *graph.value_info, *graph.output):
        tensor = info.type.tensor_type
        dtype = dtype_name(tensor.elem_type) if info.type.HasField("tensor_type") else None
        if dtype is None or not tensor.HasField("shape"):
            continue
        if all(axis.HasField("dim_value") for axis in tensor.shape.dim):
            shape = tuple(axis.dim_value for axis in tensor.shape.dim)
            seen[info.name] = _Look(dtype, shape, proven=True)
    return seen


def _observed(
    bound: Any, inputs: Mapping[str, np.ndarray[Any, Any]], names: Sequence[str], folder: Path
) -> Seen:
    probe = onnx.ModelProto()
    probe.CopyFrom(bound)
    present = {one.name for one in probe.graph.output}
    # Without a type: the runtime finds it itself.
    probe.graph.output.extend(
        onnx.ValueInfoProto(name=name) for name in names if name not in present
    )
    path = folder / "probe.onnx"
    path.write_bytes(probe.SerializeToString())
    try:
        part = Part(path)
        return {
            name: _Look(array.dtype.name, array.shape, proven=False)
            for start in range(0, len(names), _AT_ONCE)
            for name, array in _arrays(part.run(inputs, names[start : start + _AT_ONCE]))
        }
    finally:
        path.unlink()


def _arrays(found: Mapping[str, Any]) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """Without sequences, maps and text."""
    for name, value in found.items():
        if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
            yield name, value
