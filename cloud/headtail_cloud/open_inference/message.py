"""Requests from bytes, answers to bytes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Annotated, Any, Final

import msgspec
import numpy as np
from msgspec import UNSET, Meta, UnsetType

from headtail_fabric.codec.base import Array
from headtail_fabric.errors import PeerError
from headtail_fabric.wire import Buffer

HEADER_LENGTH: Final = "Inference-Header-Content-Length"
"""How many bytes of the body are JSON; the rest is binary."""

DATATYPES: Final[Mapping[str, np.dtype[Any]]] = {
    "FP32": np.dtype("<f4"),
    "UINT8": np.dtype("u1"),
}
NAMES: Final[Mapping[str, str]] = {"float32": "FP32", "uint8": "UINT8"}
"""Datatypes by the names that bundles have for them."""

_MAX_JSON_BYTES: Final = 64 * 1024 * 1024
_MAX_TIMEOUT_US: Final = 3_600_000_000

_Name = Annotated[str, Meta(max_length=128)]
_Dim = Annotated[int, Meta(ge=1, le=1 << 24)]
_Size = Annotated[int, Meta(ge=0, le=1 << 32)]


class BadRequestError(PeerError):
    """The request does not follow the Open Inference Protocol, or is none that this server takes.
    See the message, and the model's metadata for its input."""


class _InputParameters(msgspec.Struct, frozen=True, kw_only=True):
    """Others than these are ignored, as the protocol wants it."""

    binary_data_size: _Size | None = None
    codec: _Name = "raw"
    quantiser: _Name = ""


class _Input(msgspec.Struct, frozen=True, kw_only=True):
    name: _Name
    shape: Annotated[list[_Dim], Meta(min_length=1, max_length=8)]
    datatype: _Name
    parameters: _InputParameters = _InputParameters()
    data: list[Any] | UnsetType = UNSET


class _OutputParameters(msgspec.Struct, frozen=True, kw_only=True):
    binary_data: bool | None = None


class _Output(msgspec.Struct, frozen=True, kw_only=True):
    name: _Name
    parameters: _OutputParameters = _OutputParameters()


class _Parameters(msgspec.Struct, frozen=True, kw_only=True):
    timeout: Annotated[int, Meta(ge=0, le=_MAX_TIMEOUT_US)] = 0
    binary_data_output: bool = False


class _Request(msgspec.Struct, frozen=True, kw_only=True):
    inputs: Annotated[list[_Input], Meta(max_length=16)]
    id: _Name = ""
    parameters: _Parameters = _Parameters()
    outputs: Annotated[list[_Output], Meta(max_length=64)] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class InferRequest:
    """One inference. `outputs`: names of those wanted, none for the answer alone; `binary`: which
    of them in binary, None for all. `timeout_s` is None when the caller left it open."""

    id: str
    name: str
    datatype: str
    shape: tuple[int, ...]
    payload: Buffer
    codec: str = "raw"
    quantiser: str = ""
    timeout_s: float | None = None
    outputs: tuple[str, ...] = ()
    binary: frozenset[str] | None = frozenset()


_decoder: Final = msgspec.json.Decoder(_Request)


def parse_request(body: Buffer, header_length: str | None = None) -> InferRequest:
    """The request in a body; `header_length`: the HTTP header of that name. Raises
    BadRequestError, whatever comes."""
    text, binary = _split(memoryview(body), header_length)
    try:
        request = _decoder.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequestError(f"not a request: {error}") from None
    if len(request.inputs) != 1:
        raise BadRequestError(f"{len(request.inputs)} inputs, one tensor crosses a cut")
    (tensor,) = request.inputs
    timeout_us = request.parameters.timeout
    return InferRequest(
        id=request.id,
        name=tensor.name,
        datatype=tensor.datatype,
        shape=tuple(tensor.shape),
        payload=_payload(tensor, binary),
        codec=tensor.parameters.codec,
        quantiser=tensor.parameters.quantiser,
        timeout_s=timeout_us / 1e6 if timeout_us else None,
        outputs=tuple(output.name for output in request.outputs),
        binary=_in_binary(request),
    )


def encode_answer(
    request: InferRequest, tensors: Mapping[str, Array], *, model: str, version: str
) -> tuple[bytes, int | None]:
    """The body, and how many bytes of it are JSON, None when all are."""
    outputs: list[dict[str, object]] = []
    binary: list[bytes] = []
    for name, tensor in tensors.items():
        output: dict[str, object] = {
            "name": name,
            "datatype": NAMES[str(tensor.dtype)],
            "shape": list(tensor.shape),
        }
        if request.binary is None or name in request.binary:
            data = np.ascontiguousarray(tensor, dtype=tensor.dtype.newbyteorder("<")).tobytes()
            output["parameters"] = {"binary_data_size": len(data)}
            binary.append(data)
        else:
            output["data"] = tensor.ravel().tolist()
        outputs.append(output)
    header = msgspec.json.encode(
        {"model_name": model, "model_version": version, "id": request.id, "outputs": outputs}
    )
    if not binary:
        return header, None
    return b"".join([header, *binary]), len(header)


def encode_request(
    name: str,
    tensor: Array,
    *,
    binary: bool = True,
    outputs: Sequence[str] = (),
    timeout_s: float | None = None,
) -> tuple[bytes, int | None]:
    """A request for `tensor`, as `encode_answer` returns an answer."""
    entry: dict[str, object] = {
        "name": name,
        "datatype": NAMES[str(tensor.dtype)],
        "shape": list(tensor.shape),
    }
    data = b""
    if binary:
        data = np.ascontiguousarray(tensor, dtype=tensor.dtype.newbyteorder("<")).tobytes()
        entry["parameters"] = {"binary_data_size": len(data)}
    else:
        entry["data"] = tensor.ravel().tolist()
    parameters: dict[str, object] = {"binary_data_output": binary}
    if timeout_s is not None:
        parameters["timeout"] = round(timeout_s * 1e6)
    header = msgspec.json.encode(
        {
            "inputs": [entry],
            "parameters": parameters,
            "outputs": [{"name": name} for name in outputs],
        }
    )
    return header + data, len(header) if binary else None


def _split(body: memoryview, header_length: str | None) -> tuple[memoryview, memoryview]:
    if header_length is None:
        size = len(body)
    elif header_length.isascii() and header_length.isdigit() and len(header_length) < 12:
        size = int(header_length)
    else:
        raise BadRequestError(f"{HEADER_LENGTH} is no length: {header_length[:20]!r}")
    if size > len(body):
        raise BadRequestError(f"{HEADER_LENGTH} is {size}, the body has {len(body)} bytes")
    if size > _MAX_JSON_BYTES:
        raise BadRequestError(f"{size} bytes of JSON: send the tensor as binary data")
    return body[:size], body[size:]


def _in_binary(request: _Request) -> frozenset[str] | None:
    default = request.parameters.binary_data_output
    if not request.outputs:
        return None if default else frozenset()
    return frozenset(
        output.name
        for output in request.outputs
        if (default if output.parameters.binary_data is None else output.parameters.binary_data)
    )


def _payload(tensor: _Input, binary: memoryview) -> Buffer:
    size = tensor.parameters.binary_data_size
    if size is None:
        if tensor.data is UNSET:
            raise BadRequestError(f"input {tensor.name!r} has no data")
        if tensor.parameters.codec != "raw":
            raise BadRequestError(f"input {tensor.name!r} in a codec must be binary data")
        if len(binary):
            raise BadRequestError(f"{len(binary)} bytes of binary data, and no input for them")
        return _from_json(tensor, tensor.data)
    if tensor.data is not UNSET:
        raise BadRequestError(f"input {tensor.name!r} has data twice, in JSON and in binary")
    if size != len(binary):
        raise BadRequestError(f"{len(binary)} bytes of binary data for {size}")
    return binary


def _from_json(tensor: _Input, data: list[Any]) -> bytes:
    """Nested or flat, as the protocol has it."""
    dtype = DATATYPES.get(tensor.datatype)
    if dtype is None:
        known = ", ".join(DATATYPES)
        raise BadRequestError(f"datatype {tensor.datatype[:20]!r}, this server knows {known}")
    try:
        array = np.array(data)
    except ValueError:
        raise BadRequestError(f"the data of {tensor.name!r} are ragged") from None
    if array.dtype.kind not in "iuf":
        raise BadRequestError(f"the data of {tensor.name!r} are not numbers")
    if array.size != prod(tensor.shape):
        raise BadRequestError(f"{array.size} numbers for shape {tuple(tensor.shape)}")
    if dtype.kind == "u" and (array.dtype.kind == "f" or array.min() < 0 or array.max() > 255):
        raise BadRequestError(f"the data of {tensor.name!r} are not bytes")
    with np.errstate(over="ignore"):  # beyond float32 becomes infinite, as in binary data
        return array.astype(dtype).tobytes()
