"""The handler, invoked as the platform invokes it."""

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headtail_cloud.engines.served_tail import ServedTail, TailInputError
from headtail_cloud.open_inference.message import HEADER_LENGTH, BadRequestError, encode_request
from headtail_cloud.serverless import aws_lambda
from headtail_cloud.serverless.function import FunctionSettingsError, TailFunction
from headtail_fabric.codec.base import Array


@pytest.fixture(autouse=True)
def a_fresh_process() -> None:
    aws_lambda.warm.cache_clear()


@pytest.fixture
def early(tails: dict[str, ServedTail]) -> ServedTail:
    return tails["specimen:early"]


@pytest.fixture
def tensor(early: ServedTail) -> Array:
    return np.random.default_rng(5).random((1, *early.input.shape), dtype=np.float32)


@pytest.fixture
def expected(early: ServedTail, tensor: Array) -> Array:
    (outputs,) = early.run([tensor], [()])
    logits: Array = outputs["logits"][0]
    return logits


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch, specimen_path: Path, tmp_path: Path) -> None:
    monkeypatch.setenv("HEADTAIL_MODEL", f"{specimen_path}:early")
    monkeypatch.setenv("HEADTAIL_CACHE", str(tmp_path))


def gateway_event(body: bytes, *, binary: bool, headers: dict[str, str]) -> dict[str, Any]:
    """As API Gateway's HTTP API sends it (payload format 2.0)."""
    return {
        "version": "2.0",
        "rawPath": "/",
        "headers": headers,
        "requestContext": {"http": {"method": "POST", "path": "/"}},
        "body": base64.b64encode(body).decode() if binary else body.decode(),
        "isBase64Encoded": binary,
    }


@pytest.mark.usefixtures("environment")
def test_an_http_event_in_json(early: ServedTail, tensor: Array, expected: Array) -> None:
    body, _ = encode_request(early.input.name, tensor, binary=False)
    answer = aws_lambda.handler(gateway_event(body, binary=False, headers={}), None)
    assert answer["statusCode"] == 200
    assert not answer["isBase64Encoded"]
    (output,) = json.loads(answer["body"])["outputs"]
    np.testing.assert_allclose(output["data"], expected, atol=1e-5)


@pytest.mark.usefixtures("environment")
def test_an_http_event_in_binary(early: ServedTail, tensor: Array, expected: Array) -> None:
    body, length = encode_request(early.input.name, tensor)
    headers = {HEADER_LENGTH: str(length)}
    answer = aws_lambda.handler(gateway_event(body, binary=True, headers=headers), None)
    assert answer["isBase64Encoded"]
    data = base64.b64decode(answer["body"])
    size = int(answer["headers"][HEADER_LENGTH])
    np.testing.assert_allclose(np.frombuffer(data[size:], "<f4"), expected, atol=1e-5)


@pytest.mark.usefixtures("environment")
def test_a_direct_event(early: ServedTail, tensor: Array, expected: Array) -> None:
    body, _ = encode_request(early.input.name, tensor, binary=False)
    event = json.loads(body)
    event["parameters"]["binary_data_output"] = True  # an event's answer is JSON all the same
    answer = aws_lambda.handler(event, None)
    np.testing.assert_allclose(answer["outputs"][0]["data"], expected, atol=1e-5)
    assert aws_lambda.warm() is aws_lambda.warm()


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize(
    "change",
    [
        {"body": None},
        {"body": "{"},
        {"body": "!", "isBase64Encoded": True},
        {"body": '{"inputs": []}', "headers": None},
    ],
)
def test_a_bad_http_event_is_answered(change: dict[str, Any]) -> None:
    event = {**gateway_event(b"{}", binary=False, headers={}), **change}
    answer = aws_lambda.handler(event, None)
    assert answer["statusCode"] == 400
    assert json.loads(answer["body"])["code"] == "bad-request"


@pytest.mark.usefixtures("environment")
def test_a_bad_direct_event_raises() -> None:
    with pytest.raises(BadRequestError):
        aws_lambda.handler({"inputs": "none"}, None)
    with pytest.raises(BadRequestError):
        aws_lambda.handler({"inputs": object()}, None)


def test_a_payload_that_does_not_decode_is_the_callers_fault(early: ServedTail) -> None:
    function = TailFunction(early)
    text = {
        "inputs": [
            {
                "name": early.input.name,
                "shape": [1, *early.input.shape],
                "datatype": "FP32",
                "parameters": {"binary_data_size": 3},
            }
        ]
    }
    head = json.dumps(text).encode()
    with pytest.raises(TailInputError):
        function.invoke(head + b"abc", str(len(head)))


@pytest.mark.parametrize(
    "environment",
    [{}, {"HEADTAIL_MODEL": "x", "HEADTAIL_THREADS": "many"}, {"HEADTAIL_MODEL": ""}],
)
def test_settings_that_are_not_right(environment: dict[str, str]) -> None:
    with pytest.raises(FunctionSettingsError):
        TailFunction.from_environment(environment)
