"""A stage: tensors in, tensors out. The same seam for a head, a tail or the whole network."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Literal, Protocol

import numpy as np
import onnxruntime as ort
from onnxruntime.capi import onnxruntime_pybind11_state as runtime

from headtail_fabric.codec.base import Array
from headtail_fabric.errors import ConfigError, HeadtailError, LocalError, ResourceError
from headtail_models.tensor import TensorSpec

# Some builds of the runtime report its use, in a thread of its own: what runs here is nobody else's
# business, and a thread's locks must not be copied by a fork.
ort.disable_telemetry_events()

_ERROR: Final = 3  # ONNX Runtime's log severity
_DTYPES: Final[dict[str, Literal["float32", "uint8"]]] = {
    "tensor(float)": "float32",
    "tensor(uint8)": "uint8",
}
_FAULTS: Final[tuple[type[Exception], ...]] = (
    runtime.EngineError,
    runtime.EPFail,
    runtime.Fail,
    runtime.InvalidArgument,
    runtime.InvalidGraph,
    runtime.InvalidProtobuf,
    runtime.ModelLoaded,
    runtime.NoModel,
    runtime.NoSuchFile,
    runtime.NotImplemented,
    runtime.RuntimeException,
    MemoryError,
    RuntimeError,
    ValueError,
)


class StageError(HeadtailError):
    """A stage of a network could not be run. See the message."""


class StageLoadError(StageError, ConfigError):
    """The runtime can't load a stage's model. Verify the bundle; if it is whole, it needs a newer
    onnxruntime, or its builder has a bug."""


class StageMismatchError(StageLoadError):
    """A stage's model is not the one that its bundle describes. Build the bundle again; its
    builder has a bug."""


class StageInputError(StageError, LocalError):
    """A stage was given tensors that it does not take. Check that they come from the same bundle
    and the same cut."""


class StageRunError(StageError, ResourceError):
    """The runtime failed while it ran a stage, most often for want of memory. Use fewer threads
    or smaller batches."""


class Stage(Protocol):
    """Part of a network. Safe to call from several threads."""

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs by name, each (N, ...), for inputs by name, each (N, ...), N at least 1.

        The inputs may be read-only views and are not kept. Raises StageInputError, StageRunError.
        """
        ...


class OnnxStage:
    """A stage in ONNX Runtime, on the CPU.

    A model whose weights lie outside finds them beside its own file. `threads` compute one call.
    The runtime's threads do not spin while they wait, as they would by default. On two cores, with
    two threads for each of three sessions that ran a small network 15 times a second in turn, a run
    took 14 ms and 17 ms of processor time without spinning, 12 ms and 77 ms with it; the camera,
    the codec, the other sessions and the battery want those cores.
    """

    def __init__(self, path: Path, *, threads: int = 1) -> None:
        """Raises StageLoadError, naming the file."""
        self._path = path
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = _ERROR
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            self._session = ort.InferenceSession(
                path, options, providers=["CPUExecutionProvider"], enable_fallback=False
            )
        except _FAULTS as error:
            raise StageLoadError(f"{path}: {_one_line(error)}", path=str(path)) from None
        self._inputs = self._specs(self._session.get_inputs())
        self._outputs = self._specs(self._session.get_outputs())
        self._output_names = [spec.name for spec in self._outputs]

    def __repr__(self) -> str:
        return f"<OnnxStage {self._path.name} {_brief(self._inputs)} -> {_brief(self._outputs)}>"

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        return self._inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        return self._outputs

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        self._check(inputs)
        try:
            outputs = self._session.run(self._output_names, dict(inputs))
        except _FAULTS as error:
            raise StageRunError(f"{self._path}: {_one_line(error)}", path=str(self._path)) from None
        return dict(zip(self._output_names, outputs, strict=True))

    def _check(self, inputs: Mapping[str, Array]) -> None:
        # The runtime takes whatever byte order for its own, and has no word for an empty batch.
        if inputs.keys() != {spec.name for spec in self._inputs}:
            raise StageInputError(
                f"{self._path.name} takes {[spec.name for spec in self._inputs]}, "
                f"was given {list(inputs)}"
            )
        batches = set()
        for spec in self._inputs:
            array = inputs[spec.name]
            if array.dtype != np.dtype(spec.dtype) or array.shape[1:] != spec.shape:
                raise StageInputError(
                    f"{self._path.name} takes {_brief([spec])}, "
                    f"was given {array.dtype.str} {array.shape}"
                )
            batches.add(array.shape[0])
        if len(batches) != 1 or 0 in batches:
            raise StageInputError(f"{self._path.name} was given batches of {sorted(batches)}")

    def _specs(self, nodes: Iterable[Any]) -> tuple[TensorSpec, ...]:
        return tuple(self._spec(node.name, node.type, node.shape) for node in nodes)

    def _spec(self, name: str, kind: str, shape: list[int | str | None]) -> TensorSpec:
        fixed = tuple(size for size in shape[1:] if isinstance(size, int))
        dtype = _DTYPES.get(kind)
        if dtype is None or not fixed or len(fixed) + 1 != len(shape) or isinstance(shape[0], int):
            raise StageLoadError(
                f"{self._path}: tensor {name!r} is {kind} {shape}; a stage's tensors are float or "
                "uint8, their first axis free and the others fixed",
                path=str(self._path),
            )
        return TensorSpec(name=name, dtype=dtype, shape=fixed)


def _brief(specs: Iterable[TensorSpec]) -> str:
    return ", ".join(f"{spec.name} {spec.dtype} {('N', *spec.shape)}" for spec in specs)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
