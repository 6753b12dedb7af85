"""Cutting an ONNX model in two, whoever made it. Needs the extra `build`.

`open_model` reads a file and finds its cuts; `OnnxModel.split` makes head and tail, and `verify`
runs both ways. `read`, `weights`, `graph`, `inputs`, `tensors`, `cuts` and `slicing` are the steps.
"""

from headtail_models.zoo.errors import MissingExtraError

try:
    import onnx as _onnx  # noqa: F401
except ImportError as missing:
    raise MissingExtraError(
        f"cutting a model needs {missing.name}: pip install 'headtail[build]'"
    ) from None

from headtail_models.splitting.agreement import Agreement
from headtail_models.splitting.cuts import Cut, Obstacle
from headtail_models.splitting.errors import SplitError
from headtail_models.splitting.model import OnnxModel, Split, open_model

__all__ = ["Agreement", "Cut", "Obstacle", "OnnxModel", "Split", "SplitError", "open_model"]
