"""What can go wrong while an ONNX model is read, cut and checked."""

from headtail_fabric.errors import ConfigError, ResourceError


class SplitError(ConfigError):
    """The model can't be cut like this. See the message."""


class NotOnnxError(SplitError):
    """The file is not an ONNX model, or is damaged. Export the model again, and name the .onnx
    file itself."""


class NewerModelError(SplitError):
    """The model was written for a newer ONNX than the one installed here. Update onnx and
    onnxruntime, or export the model again with a lower opset."""


class ExternalDataError(SplitError):
    """The model's weights lie in a file of their own that is missing, too short, or not beside the
    model. Put all files of the export into one folder, under the names that they had."""


class MalformedGraphError(SplitError):
    """The model's graph contradicts itself. Export it again; onnx.checker may say more."""


class FreeAxisError(SplitError):
    """An input has an axis without a size besides the batch, so the model can't be run here. Give
    its size with --shape INPUT=1x3x224x224."""


class UnknownTensorError(SplitError):
    """No tensor of the model has that name. `headtail plan` lists the places where it can be
    cut."""


class NotACutError(SplitError):
    """The model can't be cut at that tensor; the message says why. `headtail plan` lists the places
    where it can be cut."""


class UnequalError(SplitError):
    """Head and tail together don't compute what the whole model does. If the model draws random
    numbers inside, cut it behind them; if not, please report it with the model."""


class SampleError(SplitError):
    """A sample does not fit the model's input. Give arrays (.npy) of the input's shape and type, or
    pictures for an input of three channels."""


class RefusedModelError(SplitError, ResourceError):
    """ONNX Runtime can't load or run the model, or a part of it. Try the model in ONNX Runtime by
    itself; it may need custom operators, a newer runtime, or more memory."""
