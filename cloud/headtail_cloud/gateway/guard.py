"""What every route that computes something has before it: who asks, how much of it, and what is
said when it fails."""

import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from headtail_cloud.gateway import failure
from headtail_cloud.gateway.failure import Failure, FailureError
from headtail_cloud.gateway.limits import Limits, Turnstile, read_body
from headtail_cloud.metrics import CloudMetrics
from headtail_cloud.open_inference.message import BadRequestError
from headtail_cloud.tenants import Caller, Tenants, UnknownKeyError
from headtail_fabric.logs import fields

log = logging.getLogger(__name__)

Handler = Callable[[Request], Awaitable[Response]]
Failed = Callable[[Failure, dict[str, str]], Response]
"""A failure as a response with those headers, in the words of one API."""

_CLIENT_GONE: Final = 499
"""Nobody reads it; it stands in logs."""


class Guard:
    """Keys, limits and failures, the same for each API."""

    def __init__(self, tenants: Tenants, limits: Limits, metrics: CloudMetrics) -> None:
        self._tenants = tenants
        self._limits = limits
        self._turnstile = Turnstile(limits.concurrency)
        self._metrics = metrics

    def __repr__(self) -> str:
        return f"<Guard {self._tenants!r}, {self._turnstile!r}>"

    def caller(self, request: Request) -> Caller:
        """Raises UnknownKeyError."""
        return self._tenants.caller(request.headers.get("authorization"))

    @contextmanager
    def enter(self, request: Request) -> Iterator[Caller]:
        """While it is in progress. Raises UnknownKeyError, and FailureError when there are too
        many."""
        caller = self.caller(request)
        with self._turnstile.enter(caller):
            yield caller

    async def body(self, request: Request) -> bytes:
        """Raises what `read_body` does."""
        return await read_body(request, self._limits)

    def failed(
        self, what: Failure, shape: Failed, headers: dict[str, str] | None = None
    ) -> Response:
        """Counted, and answered."""
        self._metrics.failed(what.code)
        return shape(what, {**what.headers, **(headers or {})})

    def route(self, handler: Handler, shape: Failed) -> Handler:
        """Turns what goes wrong into an answer."""

        async def guarded(request: Request) -> Response:
            try:
                return await handler(request)
            except FailureError as error:
                return self.failed(error.failure, shape)
            except BadRequestError as error:
                return self.failed(failure.bad_request(error), shape)
            except UnknownKeyError as error:
                unknown = Failure(status=401, code="unknown-key", message=error.message)
                return self.failed(unknown, shape, {"WWW-Authenticate": "Bearer"})
            except ClientDisconnect:
                log.debug("client gone", extra=fields(path=request.url.path))
                return Response(status_code=_CLIENT_GONE)

        return guarded
