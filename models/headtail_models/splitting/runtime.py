"""Parts of a model in ONNX Runtime, with whatever inputs and outputs they have.

A bundle's stages are `headtail_models.stage`; a part under examination may have tensors of any
type and any fixed batch.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import onnxruntime as ort
from onnxruntime.capi import onnxruntime_pybind11_state as state

from headtail_fabric.codec.base import Array
from headtail_models.splitting.errors import RefusedModelError

_FATAL: Final = 4  # ONNX Runtime's log severity: what goes wrong is raised as well
_FAULTS: Final[tuple[type[Exception], ...]] = (
    *(
        kind
        for kind in vars(state).values()
        if isinstance(kind, type) and issubclass(kind, Exception)
    ),
    RuntimeError,
    ValueError,
    MemoryError,
)


class Part:
    """A loaded ONNX file, computing with `threads`."""

    def __init__(self, path: Path, *, threads: int = 1) -> None:
        """Raises RefusedModelError."""
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = _FATAL
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            self._session: Any = ort.InferenceSession(
                path, options, providers=["CPUExecutionProvider"], enable_fallback=False
            )
        except _FAULTS as error:
            raise RefusedModelError(f"{path.name}: {_one_line(error)}") from None
        self._name = path.name
        self.inputs = tuple(one.name for one in self._session.get_inputs())
        self.outputs = tuple(one.name for one in self._session.get_outputs())

    def run(
        self, inputs: Mapping[str, Array], outputs: Sequence[str] | None = None
    ) -> dict[str, Any]:
        """Outputs by name, all or those named. Of `inputs`, those that the part has are taken.

        Raises RefusedModelError.
        """
        wanted = list(self.outputs if outputs is None else outputs)
        try:
            found = self._session.run(wanted, {name: inputs[name] for name in self.inputs})
        except _FAULTS as error:
            raise RefusedModelError(f"{self._name}: {_one_line(error)}") from None
        return dict(zip(wanted, found, strict=True))


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:500] or type(error).__name__
