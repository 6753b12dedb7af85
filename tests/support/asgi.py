"""Call an ASGI application in memory: no socket, and full control over how a body arrives."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

Message = MutableMapping[str, Any]
Application = Callable[
    [
        MutableMapping[str, Any],
        Callable[[], Awaitable[Message]],
        Callable[[Message], Awaitable[None]],
    ],
    Awaitable[None],
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """Of a failure."""
        return str(self.json["code"])


async def call(
    app: Application,
    method: str,
    path: str,
    *,
    headers: Mapping[str, str] | None = None,
    body: bytes | Sequence[bytes] = b"",
    leaves: asyncio.Event | None = None,
    stalls: bool = False,
) -> Reply:
    """`leaves`: the client goes away when it is set; `stalls`: after the chunks nothing more of the
    body comes."""
    chunks = [body] if isinstance(body, bytes) else list(body)
    gone = leaves or asyncio.Event()
    sent: list[Message] = []

    async def receive() -> Message:
        if chunks:
            return {
                "type": "http.request",
                "body": chunks.pop(0),
                "more_body": bool(chunks) or stalls,
            }
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "scheme": "http",
        "query_string": b"",
        "headers": [
            (name.lower().encode(), value.encode()) for name, value in (headers or {}).items()
        ],
        "client": ("127.0.0.1", 50_000),
        "server": ("127.0.0.1", 8080),
    }
    await app(scope, receive, send)
    start = next(message for message in sent if message["type"] == "http.response.start")
    return Reply(
        status=start["status"],
        headers={name.decode().lower(): value.decode() for name, value in start["headers"]},
        body=b"".join(message.get("body", b"") for message in sent[1:]),
    )
