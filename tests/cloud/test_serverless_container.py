"""The container's application, called as Knative calls it."""

import asyncio
import base64
import json
from collections.abc import Mapping

import numpy as np
import pytest

from asgi import Reply, call
from headtail_cloud.engines.served_tail import ServedTail
from headtail_cloud.gateway.limits import Limits
from headtail_cloud.open_inference.message import HEADER_LENGTH, encode_request
from headtail_cloud.serverless.cloud_event import STRUCTURED
from headtail_cloud.serverless.container import app
from headtail_cloud.serverless.function import TailFunction
from headtail_fabric.codec.base import Array

EVENT = {"ce-specversion": "1.0", "ce-id": "7", "ce-source": "/camera", "ce-type": "frame"}
LIMITS = Limits(body_bytes=64_000, body_s=5.0, concurrency=4)


@pytest.fixture
def early(tails: dict[str, ServedTail]) -> ServedTail:
    return tails["specimen:early"]


@pytest.fixture
def tensor(early: ServedTail) -> Array:
    return np.random.default_rng(5).random((1, *early.input.shape), dtype=np.float32)


def post(tail: ServedTail, body: bytes, headers: Mapping[str, str] | None = None) -> Reply:
    return asyncio.run(
        call(app(TailFunction(tail), LIMITS), "POST", "/", headers=headers, body=body)
    )


def logits(tail: ServedTail, tensor: Array) -> Array:
    (outputs,) = tail.run([tensor], [()])
    logits: Array = outputs["logits"][0]
    return logits


def test_a_plain_request(early: ServedTail, tensor: Array) -> None:
    body, length = encode_request(early.input.name, tensor)
    reply = post(early, body, {HEADER_LENGTH: str(length)})
    size = int(reply.headers[HEADER_LENGTH.lower()])
    got = np.frombuffer(reply.body[size:], "<f4")
    np.testing.assert_allclose(got, logits(early, tensor), atol=1e-5)
    body, _ = encode_request(early.input.name, tensor, binary=False)
    reply = post(early, body)
    assert reply.headers["content-type"] == "application/json"
    np.testing.assert_allclose(reply.json["outputs"][0]["data"], got, atol=1e-5)


def test_an_event_in_binary_mode(early: ServedTail, tensor: Array) -> None:
    body, length = encode_request(early.input.name, tensor)
    reply = post(early, body, {**EVENT, "ce-inferencejsonbytes": str(length)})
    assert (reply.headers["ce-type"], reply.headers["ce-id"]) == ("headtail.answer", "7")
    assert reply.headers["ce-source"] == "/headtail/specimen:early"
    size = int(reply.headers["ce-inferencejsonbytes"])
    got = np.frombuffer(reply.body[size:], "<f4")
    np.testing.assert_allclose(got, logits(early, tensor), atol=1e-5)


def test_an_event_in_structured_mode(early: ServedTail, tensor: Array) -> None:
    body, _ = encode_request(early.input.name, tensor, binary=False)
    fields = {name.removeprefix("ce-"): value for name, value in EVENT.items()}
    for data in ({"data": json.loads(body)}, {"data_base64": base64.b64encode(body).decode()}):
        event = json.dumps({**fields, **data}).encode()
        reply = post(early, event, {"content-type": STRUCTURED})
        assert reply.json["type"] == "headtail.answer"
        got = reply.json["data"]["outputs"][0]["data"]
        np.testing.assert_allclose(got, logits(early, tensor), atol=1e-5)


def test_an_event_that_is_the_senders_fault_is_answered_by_one(early: ServedTail) -> None:
    reply = post(early, b"{}", EVENT)
    assert (reply.status, reply.headers["ce-type"]) == (200, "headtail.failure")
    assert reply.code == "bad-request"


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        ({}, b"{}", 400),
        ({**EVENT, "ce-specversion": "0.1"}, b"{}", 400),
        ({}, b"x" * 65_000, 413),
    ],
)
def test_a_bad_request(
    early: ServedTail, headers: dict[str, str], body: bytes, status: int
) -> None:
    assert post(early, body, headers).status == status


def test_health(early: ServedTail) -> None:
    reply = asyncio.run(call(app(TailFunction(early), LIMITS), "GET", "/healthz"))
    assert reply.json == {"live": True, "model": "specimen:early"}
