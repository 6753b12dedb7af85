"""What a request must look like before anything is done for it."""

from headtail_edge.plan import TailPlan
from headtail_fabric.errors import PeerError
from headtail_fabric.wire import ErrorCode, TensorInfo


class RequestRefusedError(PeerError):
    """A device asked for something that this edge can't compute. Check that both sides use the
    same bundle and the same version of Headtail."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


def check(plan: TailPlan, tensors: tuple[TensorInfo, ...], *, max_pixels: int) -> TensorInfo:
    """The one tensor of a request at the plan's cut.

    A tensor in a quantising codec names its table, by the codec's base id (`q8`); any other codec
    names none. Raises RequestRefusedError (BAD_PAYLOAD).
    """
    if len(tensors) != 1:
        raise _bad(f"{len(tensors)} tensors at cut {plan.key.cut!r}, exactly one crosses there")
    tensor, expected = tensors[0], plan.expected
    if tensor.name != expected.name:
        raise _bad(f"tensor {tensor.name!r} at cut {plan.key.cut!r}, not {expected.name!r}")
    if tensor.dtype is not expected.dtype:
        raise _bad(f"{tensor.name!r} is {tensor.dtype.name}, not {expected.dtype.name}")
    if tensor.codec not in plan.codecs.ids:
        allowed = ", ".join(plan.codecs.ids)
        raise _bad(f"codec {tensor.codec!r} at cut {plan.key.cut!r}, allowed: {allowed}")
    table = plan.codecs.table(tensor.codec)
    if tensor.quantiser != table:
        raise _bad(f"quantiser {tensor.quantiser!r} for {tensor.codec}, not {table!r}")
    if plan.takes_pictures:
        _check_picture(tensor.shape, max_pixels)
    elif tensor.shape != expected.shape:
        raise _bad(f"{tensor.name!r} of shape {tensor.shape}, not {expected.shape}")
    return tensor


def _check_picture(shape: tuple[int, ...], max_pixels: int) -> None:
    if len(shape) != 4 or shape[0] != 1 or shape[3] != 3 or 0 in shape:
        raise _bad(f"a picture of shape {shape}, not (1, H, W, 3)")
    if shape[1] * shape[2] > max_pixels:
        raise _bad(f"a picture of {shape[2]}x{shape[1]} pixels, the limit is {max_pixels}")


def _bad(message: str) -> RequestRefusedError:
    return RequestRefusedError(ErrorCode.BAD_PAYLOAD, message)
