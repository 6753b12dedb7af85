"""An ONNX file as a protobuf, checked as far as the file alone allows.

The weights that lie outside stay outside: only their place is checked here.
"""

import importlib
from pathlib import Path
from typing import Any, Final

import onnx

from headtail_fabric.errors import ConfigError
from headtail_fabric.logs import printable
from headtail_models.splitting.errors import NewerModelError, NotOnnxError

MAX_PROTOBUF_BYTES: Final = 2**31 - 1
"""Protobuf's own limit; larger models keep their weights in files of their own."""
_DecodeError: Final = importlib.import_module("google.protobuf.message").DecodeError
"""By name, since protobuf has no types of its own."""
_OLDEST_IR: Final = 3
_DEFAULT_DOMAINS: Final = ("", "ai.onnx")


def read_model(path: Path) -> Any:
    """The `onnx.ModelProto` of a file. Raises NotOnnxError, NewerModelError."""
    model = _parse(path)
    if model.ir_version < _OLDEST_IR or not model.opset_import or not model.graph.output:
        raise NotOnnxError(f"{path} has no ONNX graph with outputs")
    if model.ir_version > onnx.IR_VERSION:
        raise NewerModelError(
            f"{path} has IR version {model.ir_version}; onnx {onnx.__version__} reads up to "
            f"{onnx.IR_VERSION}"
        )
    newest = onnx.defs.onnx_opset_version()
    for opset in model.opset_import:
        if opset.domain in _DEFAULT_DOMAINS and opset.version > newest:
            raise NewerModelError(
                f"{path} needs opset {opset.version}; onnx {onnx.__version__} knows up to {newest}"
            )
    return model


def _parse(path: Path) -> Any:
    try:
        if path.stat().st_size > MAX_PROTOBUF_BYTES:
            raise NotOnnxError(f"{path} is larger than an ONNX file can be (2 GiB)")
        return onnx.ModelProto.FromString(path.read_bytes())
    except _DecodeError:
        raise NotOnnxError(f"{path} is not an ONNX file") from None
    except OSError as error:
        raise ConfigError(f"{printable(str(path))}: {error.strerror or error}") from None
