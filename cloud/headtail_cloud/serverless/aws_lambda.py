"""A handler for AWS Lambda, and for what follows its interface.

    handler = headtail_cloud.serverless.aws_lambda.handler
    HEADTAIL_MODEL = "/opt/bundle:L4"

It takes the events of API Gateway (payload formats 1.0 and 2.0), of function URLs and of load
balancers, and, invoked directly, an Open Inference Protocol request as the event itself.
"""

import base64
import binascii
import logging
from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec

from headtail_cloud.open_inference.message import HEADER_LENGTH, BadRequestError
from headtail_cloud.serverless.function import CALLER_ERRORS, TailFunction
from headtail_fabric.errors import HeadtailError

log = logging.getLogger(__name__)

Event = Mapping[str, Any]
Answer = dict[str, Any]


def handler(event: Event, context: object) -> Answer:
    """The entry point. The model is opened at the first call, or before, with `warm`; a model that
    can't be raises a ConfigError."""
    return handle(event, warm())


@cache
def warm() -> TailFunction:
    """The function that the environment describes, opened once a process."""
    return TailFunction.from_environment()


def handle(event: Event, function: TailFunction) -> Answer:
    """What `handler` does, with any function. An HTTP event has an HTTP answer, errors included; a
    direct one the protocol's answer, or raises BadRequestError, TailInputError, StageError."""
    if not _is_http(event):
        answered = function.invoke(_direct(event))
        answer: Answer = msgspec.json.decode(answered.body)
        return answer
    try:
        body, headers = _body(event), _lower(event.get("headers"))
        answered = function.invoke(body, headers.get(HEADER_LENGTH.lower()))
    except CALLER_ERRORS as error:
        return _failed(400, "bad-request", error.message)
    except HeadtailError as error:
        log.warning("inference failed: %s", error.message)
        return _failed(500, "failed", error.message)
    if answered.json_bytes is None:
        return _http(200, answered.body.decode())
    return {
        "statusCode": 200,
        "headers": {
            "Content-Type": "application/octet-stream",
            HEADER_LENGTH: str(answered.json_bytes),
        },
        "body": base64.b64encode(answered.body).decode(),
        "isBase64Encoded": True,
    }


def _is_http(event: Event) -> bool:
    return "requestContext" in event or "httpMethod" in event


def _direct(event: Event) -> bytes:
    request = dict(event)
    if isinstance(parameters := request.get("parameters"), dict):
        # An event is JSON, and so is its answer.
        request["parameters"] = {**parameters, "binary_data_output": False}
    try:
        return msgspec.json.encode(request)
    except (TypeError, ValueError, RecursionError):
        raise BadRequestError("the event is not JSON") from None


def _body(event: Event) -> bytes:
    body = event.get("body")
    if not isinstance(body, str):
        raise BadRequestError("the event has no body")
    if not event.get("isBase64Encoded"):
        return body.encode()
    try:
        return base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        raise BadRequestError("the event's body is not base64") from None


def _lower(headers: object) -> dict[str, str]:
    if not isinstance(headers, Mapping):
        return {}
    return {str(name).lower(): str(value) for name, value in headers.items()}


def _failed(status: int, code: str, message: str) -> Answer:
    return _http(status, msgspec.json.encode({"error": message, "code": code}).decode())


def _http(status: int, body: str) -> Answer:
    return {
        "statusCode": status,
        "headers": {"Content-Type": "application/json"},
        "body": body,
        "isBase64Encoded": False,
    }
