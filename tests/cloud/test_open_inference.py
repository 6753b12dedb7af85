import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headtail_cloud.open_inference.message import (
    BadRequestError,
    InferRequest,
    encode_answer,
    encode_request,
    parse_request,
)
from headtail_fabric.codec.base import Array

TENSOR = np.arange(6, dtype=np.float32).reshape(1, 2, 3)


def body(**change: object) -> bytes:
    tensor = {"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2.5]}
    return json.dumps({"inputs": [{**tensor, **change}]}).encode()


def numbers(request: InferRequest, dtype: str = "<f4") -> list[float]:
    values: list[float] = np.frombuffer(request.payload, dtype=dtype).tolist()
    return values


@pytest.mark.parametrize("binary", [True, False])
def test_a_request_is_what_was_encoded(binary: bool) -> None:
    data, length = encode_request("x", TENSOR, binary=binary, outputs=["logits"], timeout_s=0.25)
    request = parse_request(data, None if length is None else str(length))
    assert (request.name, request.datatype, request.shape) == ("x", "FP32", (1, 2, 3))
    assert numbers(request) == [0, 1, 2, 3, 4, 5]
    assert request.timeout_s == 0.25
    assert request.outputs == ("logits",)
    assert request.binary == (frozenset({"logits"}) if binary else frozenset())


def test_data_may_be_nested() -> None:
    assert numbers(parse_request(body(data=[[1, 2.5]]))) == [1, 2.5]


def test_bytes() -> None:
    request = parse_request(body(datatype="UINT8", data=[0, 255]))
    assert numbers(request, "u1") == [0, 255]


def test_a_tensor_in_a_codec() -> None:
    head = {
        "name": "x",
        "shape": [1, 9],
        "datatype": "FP32",
        "parameters": {"binary_data_size": 3, "codec": "q8+zstd", "quantiser": "q8", "z": 1},
    }
    text = json.dumps({"inputs": [head], "id": "7"}).encode()
    request = parse_request(text + b"abc", str(len(text)))
    assert (request.codec, request.quantiser, bytes(request.payload)) == ("q8+zstd", "q8", b"abc")
    assert request.id == "7"
    assert request.timeout_s is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": [1]}, "1 numbers for shape"),
        ({"data": [[1], [2, 3]]}, "ragged"),
        ({"data": ["1", "2"]}, "not numbers"),
        ({"data": [True, False]}, "not numbers"),
        ({"data": [1, 1 << 70]}, "not numbers"),
        ({"datatype": "UINT8", "data": [1, 256]}, "not bytes"),
        ({"datatype": "UINT8", "data": [1, -1]}, "not bytes"),
        ({"datatype": "UINT8", "data": [1, 0.5]}, "not bytes"),
        ({"datatype": "INT64"}, "datatype 'INT64'"),
        ({"shape": []}, "length >= 1"),
        ({"shape": [0, 2]}, ">= 1"),
        ({"parameters": {"binary_data_size": 4}}, "data twice"),
        ({"parameters": {"codec": "zstd"}}, "must be binary"),
        ({"parameters": {"binary_data_size": -1}}, ">= 0"),
    ],
)
def test_refuses_what_is_no_tensor(change: dict[str, object], message: str) -> None:
    with pytest.raises(BadRequestError) as caught:
        parse_request(body(**change))
    assert message in caught.value.message


@pytest.mark.parametrize("header", ["-1", "1e3", "999", "", "1" * 20, "\u0661"])
def test_refuses_a_header_that_is_no_length_of_it(header: str) -> None:
    with pytest.raises(BadRequestError, match="Inference-Header-Content-Length"):
        parse_request(b"{}", header)


def test_refuses_binary_data_that_belong_to_nothing() -> None:
    text = body()
    with pytest.raises(BadRequestError, match="no input for them"):
        parse_request(text + b"x", str(len(text)))
    data, length = encode_request("x", TENSOR)
    with pytest.raises(BadRequestError, match="23 bytes of binary data for 24"):
        parse_request(data[:-1], str(length))


@pytest.mark.parametrize("inputs", [[], [{"name": "x", "shape": [1], "datatype": "FP32"}] * 2])
def test_one_tensor_crosses(inputs: list[object]) -> None:
    with pytest.raises(BadRequestError, match="one tensor crosses"):
        parse_request(json.dumps({"inputs": inputs}).encode())


def test_no_data_at_all() -> None:
    text = json.dumps({"inputs": [{"name": "x", "shape": [1], "datatype": "FP32"}]}).encode()
    with pytest.raises(BadRequestError, match="has no data"):
        parse_request(text)


def test_a_deep_nest_is_refused() -> None:
    with pytest.raises(BadRequestError):
        parse_request(b'{"inputs": ' + b"[" * 100_000)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=60), st.none() | st.text(max_size=4))
def test_anything_else_is_a_bad_request(data: bytes, header: str | None) -> None:
    with pytest.raises(BadRequestError):
        parse_request(data, header)


def answer_to(request: InferRequest, tensors: dict[str, Array]) -> tuple[dict[str, object], bytes]:
    data, length = encode_answer(request, tensors, model="m", version="1.0")
    size = len(data) if length is None else length
    header: dict[str, object] = json.loads(data[:size])
    return header, data[size:]


def test_an_answer_in_json() -> None:
    header, rest = answer_to(parse_request(body()), {"logits": TENSOR})
    assert (header["model_name"], header["model_version"], rest) == ("m", "1.0", b"")
    assert header["outputs"] == [
        {"name": "logits", "datatype": "FP32", "shape": [1, 2, 3], "data": [0, 1, 2, 3, 4, 5]}
    ]


def test_an_answer_in_binary() -> None:
    data, length = encode_request("x", TENSOR)
    header, rest = answer_to(parse_request(data, str(length)), {"logits": TENSOR})
    assert rest == TENSOR.tobytes()
    assert header["outputs"] == [
        {
            "name": "logits",
            "datatype": "FP32",
            "shape": [1, 2, 3],
            "parameters": {"binary_data_size": 24},
        }
    ]


def test_each_output_as_it_was_asked_for() -> None:
    text = json.loads(body())
    text["outputs"] = [{"name": "a", "parameters": {"binary_data": True}}, {"name": "b"}]
    request = parse_request(json.dumps(text).encode())
    header, rest = answer_to(request, {"a": TENSOR, "b": TENSOR})
    assert rest == TENSOR.tobytes()
    outputs = header["outputs"]
    assert isinstance(outputs, list)
    assert ["data" in output for output in outputs] == [False, True]
