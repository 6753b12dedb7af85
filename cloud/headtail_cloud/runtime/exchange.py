"""One request's conversation with a runtime."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final

from headtail_cloud.core.actions import Accept, EmitToken, Finish, Reject
from headtail_fabric.errors import LocalError

Told = Accept | EmitToken | Finish | Reject
TOLD: Final = (Accept, EmitToken, Finish, Reject)


class RuntimeBrokenError(LocalError):
    """The scheduler failed, and with it every request that was here. This is a bug: please report
    it with the log, and start the server again."""


class Exchange:
    """What becomes of a request: Accept, its tokens, Finish; or Reject alone. For one reader.

    What is not read waits here; a text says no more tokens than it asked for.
    """

    def __init__(self, request_id: str, cancel: Callable[[str], None]) -> None:
        self.request_id = request_id
        self._cancel = cancel
        self._told: asyncio.Queue[Told | RuntimeBrokenError] = asyncio.Queue()

    def __repr__(self) -> str:
        return f"<Exchange {self.request_id}, {self._told.qsize()} unread>"

    def tell(self, what: Told | RuntimeBrokenError) -> None:
        """For the runtime; an error is raised to the reader."""
        self._told.put_nowait(what)

    def cancel(self) -> None:
        """Its caller went away; it ends, unless it has ended."""
        self._cancel(self.request_id)

    async def __aiter__(self) -> AsyncIterator[Told]:
        """Raises RuntimeBrokenError."""
        while True:
            told = await self._next()
            yield told
            if isinstance(told, Finish | Reject):
                return

    async def end(self) -> Finish | Reject:
        """How it ended. A reader that is cancelled while it waits cancels the request. Raises
        RuntimeBrokenError."""
        try:
            while not isinstance(told := await self._next(), Finish | Reject):
                pass
        except asyncio.CancelledError:
            self.cancel()
            raise
        return told

    async def _next(self) -> Told:
        told = await self._told.get()
        if isinstance(told, RuntimeBrokenError):
            raise told
        return told
