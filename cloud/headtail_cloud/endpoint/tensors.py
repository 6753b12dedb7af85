"""A request's tensor on its way in, an answer's on its way out."""

from collections.abc import Mapping

from headtail_cloud.engines.served_tail import RAW, TailInput, TailInputError, TailModel
from headtail_fabric.codec import codec_for
from headtail_fabric.codec.base import CODES, Array
from headtail_fabric.wire import Buffer, DType, Frames, TensorInfo
from headtail_models.bundle.codecs import PICTURE_CODECS


def tail_input(model: TailModel, tensors: tuple[TensorInfo, ...], payloads: Frames) -> TailInput:
    """The one tensor of a request, checked. Raises TailInputError."""
    if len(tensors) != 1:
        raise TailInputError(f"{len(tensors)} tensors at cut {model.cut!r}, one crosses there")
    tensor = tensors[0]
    picture = tensor.codec in PICTURE_CODECS
    dtype = DType.UINT8 if picture else DType[model.input.dtype.upper()]
    if tensor.dtype is not dtype:
        raise TailInputError(f"{tensor.name[:40]!r} is {tensor.dtype.name}, not {dtype.name}")
    given = TailInput(
        payload=payloads[0],
        shape=tensor.shape,
        codec=tensor.codec,
        quantiser=tensor.quantiser,
    )
    model.check(given)
    return given


def answer(outputs: Mapping[str, Array]) -> tuple[tuple[TensorInfo, ...], tuple[Buffer, ...]]:
    """Outputs (1, ...) as an edge sends them: without the batch's axis, raw."""
    infos, payloads = [], []
    for name, output in outputs.items():
        tensor = output[0]
        dtype = CODES[tensor.dtype]
        infos.append(TensorInfo(name=name, dtype=dtype, shape=tensor.shape, codec=RAW))
        payloads.append(codec_for(RAW, dtype=dtype).encode(tensor))
    return tuple(infos), tuple(payloads)
