"""What reads HTTP and turns the loop: `httptools` and `uvloop` where they are installed, which take
a third of the time that Python's own do."""

import asyncio
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, Final

HEAD_BYTES: Final = 32 * 1024
"""Of a request's line and headers."""


def http_protocol() -> "type[asyncio.Protocol] | str":
    """For `uvicorn.Config(http=...)`; it limits what it takes as a head."""
    if find_spec("httptools") is None:
        return "h11"
    return _bounded()


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """For `asyncio.Runner`."""
    if find_spec("uvloop") is None:
        return asyncio.new_event_loop
    import uvloop

    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def _bounded() -> "type[asyncio.Protocol]":
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

    class BoundedHttpProtocol(HttpToolsProtocol):
        """Its parser alone would gather a head, a trailer or a chunk's extension without end."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self._unheard = 0

        def data_received(self, data: bytes) -> None:
            self._unheard += len(data)
            super().data_received(data)
            if self._unheard > HEAD_BYTES and not self.transport.is_closing():
                self.send_400_response("The headers are too large.")

        def on_body(self, body: bytes) -> None:
            self._unheard = 0
            super().on_body(body)

        def on_message_complete(self) -> None:
            self._unheard = 0
            super().on_message_complete()

    return BoundedHttpProtocol
