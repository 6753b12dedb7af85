"""An HTTP server around one function, for Knative, Cloud Run and the like. Needs the extra
`cloud`.

    POST /          an Open Inference Protocol request, or a CloudEvent that holds one
    GET  /healthz   the model is loaded

A CloudEvent is answered by one of type `headtail.answer`, or `headtail.failure` when the event is
the sender's fault: the broker would only send it again. The port is the environment's PORT.
"""

import asyncio
import logging
from typing import Final

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from headtail_cloud.gateway import failure
from headtail_cloud.gateway.failure import Failure, FailureError
from headtail_cloud.gateway.limits import Limits, read_body
from headtail_cloud.open_inference.message import HEADER_LENGTH
from headtail_cloud.serverless.cloud_event import (
    BadEventError,
    CloudEvent,
    encode_event,
    is_event,
    parse_event,
)
from headtail_cloud.serverless.function import CALLER_ERRORS, TailFunction
from headtail_fabric.errors import HeadtailError

log = logging.getLogger(__name__)

ANSWER: Final = "headtail.answer"
FAILURE: Final = "headtail.failure"
_JSON: Final = "application/json"
_BINARY: Final = "application/octet-stream"


def app(function: TailFunction, limits: Limits) -> Starlette:
    """The application."""
    return _Container(function, limits).app()


def run(function: TailFunction, limits: Limits, *, host: str, port: int) -> None:
    """Serve until SIGTERM or SIGINT."""
    uvicorn.run(
        app(function, limits),
        host=host,
        port=port,
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=limits.concurrency,
    )


class _Container:
    def __init__(self, function: TailFunction, limits: Limits) -> None:
        self._function = function
        self._limits = limits
        self._source = f"/headtail/{function.tail.name}"

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/healthz", self._live),
                Route("/", self._invoke, methods=["POST"]),
            ]
        )

    async def _live(self, request: Request) -> Response:
        return JSONResponse({"live": True, "model": self._function.tail.name})

    async def _invoke(self, request: Request) -> Response:
        try:
            body = await read_body(request, self._limits)
            if is_event(request.headers):
                return await self._event(parse_event(request.headers, body))
            answered = await asyncio.to_thread(
                self._function.invoke, body, request.headers.get(HEADER_LENGTH)
            )
        except FailureError as error:
            return _failed(error.failure)
        except (*CALLER_ERRORS, BadEventError) as error:
            return _failed(failure.bad_request(error))
        except HeadtailError as error:
            log.warning("inference failed: %s", error.message)
            return _failed(failure.of_the_engine(error))
        except ClientDisconnect:
            return Response(status_code=499)
        if answered.json_bytes is None:
            return Response(answered.body, media_type=_JSON)
        headers = {HEADER_LENGTH: str(answered.json_bytes)}
        return Response(answered.body, media_type=_BINARY, headers=headers)

    async def _event(self, event: CloudEvent) -> Response:
        header_length = event.extensions.get(_EXTENSION)
        try:
            answered = await asyncio.to_thread(self._function.invoke, event.data, header_length)
        except CALLER_ERRORS as error:
            told = msgspec.json.encode({"error": error.message, "code": "bad-request"})
            return self._told(event, told, kind=FAILURE, content_type=_JSON)
        content_type = _JSON if answered.json_bytes is None else _BINARY
        response = self._told(event, answered.body, kind=ANSWER, content_type=content_type)
        if answered.json_bytes is not None and not event.structured:
            response.headers[f"ce-{_EXTENSION}"] = str(answered.json_bytes)
        return response

    def _told(self, event: CloudEvent, data: bytes, *, kind: str, content_type: str) -> Response:
        headers, body = encode_event(
            event.answer(data, kind=kind, source=self._source, content_type=content_type)
        )
        return Response(body, headers=headers)


_EXTENSION: Final = "inferencejsonbytes"
"""The extension attribute that says how much of the data is JSON, in binary mode."""


def _failed(failed: Failure) -> Response:
    return JSONResponse(
        {"error": failed.message, "code": failed.code},
        status_code=failed.status,
        headers=failed.headers,
    )
