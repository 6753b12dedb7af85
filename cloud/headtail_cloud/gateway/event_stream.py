"""A response that comes bit by bit, to a client that may leave or stop reading at any moment."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import ExitStack
from typing import Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from headtail_cloud.gateway.failure import FailureError

log = logging.getLogger(__name__)

_HEADERS: Final = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


class EventStream(Response):
    """Server-sent events. The generator is closed, and `held` let go of, in any case: when it ends,
    when the client goes away, and when it reads nothing for `write_s`. `broken` makes the last
    event of one that fails, for the status has been sent by then."""

    media_type = "text/event-stream"

    def __init__(
        self,
        events: AsyncGenerator[bytes, None],
        *,
        held: ExitStack,
        broken: Callable[[FailureError], bytes],
        write_s: float,
    ) -> None:
        super().__init__(headers=_HEADERS)
        del self.headers["content-length"]
        self._events = events
        self._held = held
        self._broken = broken
        self._write_s = write_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._held:
            sending = asyncio.ensure_future(self._send(send))
            leaving = asyncio.ensure_future(_disconnected(receive))
            try:
                await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for future in (sending, leaving):
                    future.cancel()
                ended, _ = await asyncio.gather(sending, leaving, return_exceptions=True)
                await self._events.aclose()
        if isinstance(ended, TimeoutError | OSError):
            log.info("a client stopped reading its stream")
        elif isinstance(ended, Exception):
            raise ended

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        try:
            async for event in self._events:
                await self._write(send, event)
        except FailureError as error:
            await self._write(send, self._broken(error))
        await self._write(send, b"", more=False)

    async def _write(self, send: Send, body: bytes, *, more: bool = True) -> None:
        async with asyncio.timeout(self._write_s):
            await send({"type": "http.response.body", "body": body, "more_body": more})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
