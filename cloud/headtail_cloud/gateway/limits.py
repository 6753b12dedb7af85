"""Limits on what comes from outside, before a route sees it: bytes, seconds, requests at a time."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from starlette.requests import ClientDisconnect, Request

from headtail_cloud.gateway.failure import Failure, FailureError
from headtail_cloud.tenants import Caller

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """`concurrency`: requests in progress over all tenants; `body_s`: for a body to arrive."""

    body_bytes: int
    body_s: float
    concurrency: int


class Turnstile:
    """Counts requests in progress, in all and of each tenant."""

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency
        self._inside: Counter[str] = Counter()

    def __repr__(self) -> str:
        return f"<Turnstile {self._inside.total()}/{self._concurrency}>"

    @contextmanager
    def enter(self, caller: Caller) -> Iterator[None]:
        """Raises FailureError when there are too many already."""
        if self._inside.total() >= self._concurrency:
            raise FailureError(_busy(503, "overloaded", "too many requests are in progress"))
        if self._inside[caller.tenant] >= caller.concurrency:
            message = f"{caller.concurrency} requests of this tenant are in progress"
            raise FailureError(_busy(429, "concurrency", message))
        self._inside[caller.tenant] += 1
        try:
            yield
        finally:
            self._inside[caller.tenant] -= 1
            if not self._inside[caller.tenant]:
                del self._inside[caller.tenant]


async def read_body(request: Request, limits: Limits) -> bytes:
    """The whole body. Raises FailureError for one that is too large or too slow, and
    ClientDisconnect."""
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > limits.body_bytes:
        raise FailureError(_too_large(limits))
    try:
        async with asyncio.timeout(limits.body_s):
            return await _gather(request, limits)
    except TimeoutError:
        message = f"the body did not arrive within {limits.body_s:g} s"
        raise FailureError(Failure(status=408, code="slow-request", message=message)) from None


async def while_connected(request: Request, work: Callable[[], Awaitable[_T]]) -> _T:
    """What `work` gives; cancelled when the client goes away. Raises ClientDisconnect then.

    The body must have been read.
    """
    # One task more, not two: each costs a brief request another turn of the loop.
    working = asyncio.current_task()
    assert working is not None
    waits = True

    def left(leaving: "asyncio.Future[None]") -> None:
        if waits and not leaving.cancelled():
            working.cancel()

    leaving = asyncio.ensure_future(_disconnected(request))
    leaving.add_done_callback(left)
    try:
        return await work()
    except asyncio.CancelledError:
        if leaving.done() and working.uncancel() == 0:
            raise ClientDisconnect from None
        raise
    finally:
        waits = False
        leaving.cancel()


async def _gather(request: Request, limits: Limits) -> bytes:
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limits.body_bytes:
            raise FailureError(_too_large(limits))
        chunks.append(chunk)
    return b"".join(chunks)


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _too_large(limits: Limits) -> Failure:
    message = f"the body has more than {limits.body_bytes} bytes"
    return Failure(status=413, code="too-large", message=message)


def _busy(status: int, code: str, message: str) -> Failure:
    return Failure(status=status, code=code, message=message, retry_after_s=1.0)
