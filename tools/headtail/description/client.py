"""One chat completion of any server that speaks the OpenAI API."""

import http.client
import json
import ssl
import time
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

import msgspec

from headtail_fabric.errors import ConfigError, ResourceError

_TIMEOUT_S: Final = 120.0
_PATIENCE_S: Final = 60.0
_MAX_BYTES: Final = 1 << 20
_BUSY: Final = (429, 503)


class BadUrlError(ConfigError):
    """That is not the address of a server. Give it as http://HOST:PORT, as `headtail cloud serve`
    prints it."""


class NoReportError(ResourceError):
    """The language model's server gave no answer. Start one with `headtail cloud serve --llm
    smollm2`, or look at the reason."""


class _Message(msgspec.Struct, frozen=True, kw_only=True):
    content: str


class _Choice(msgspec.Struct, frozen=True, kw_only=True):
    message: _Message


class _Answer(msgspec.Struct, frozen=True, kw_only=True):
    choices: tuple[_Choice, ...]


def chat(
    url: str,
    *,
    model: str,
    messages: Sequence[dict[str, str]],
    max_tokens: int,
    key: str | None = None,
) -> str:
    """What the model answers, greedily. A server that is busy or still starting is asked again when
    it says, for a while. Raises BadUrlError, NoReportError."""
    place = urlsplit(url)
    if place.scheme not in ("http", "https") or not place.hostname:
        raise BadUrlError(f"{url[:200]!r} is no http address")
    body = json.dumps(
        {"model": model, "messages": messages, "max_tokens": max_tokens, "temperature": 0}
    )
    headers = {"Content-Type": "application/json"}
    if key is not None:
        headers["Authorization"] = f"Bearer {key}"
    path = place.path.rstrip("/").removesuffix("/v1") + "/v1/chat/completions"
    until = time.monotonic() + _PATIENCE_S
    while True:
        try:
            status, answer, again_s = _posted(place.scheme, place.netloc, path, body, headers)
        except (OSError, http.client.HTTPException) as error:
            raise NoReportError(f"{url}: {error}") from None
        if status not in _BUSY or again_s is None or time.monotonic() + again_s > until:
            break
        time.sleep(again_s)
    if status != 200:
        raise NoReportError(f"{url}: {status} {answer[:200].decode(errors='replace')}")
    try:
        (choice,) = msgspec.json.decode(answer, type=_Answer).choices
    except (msgspec.MsgspecError, ValueError) as error:
        raise NoReportError(f"{url}: not an answer: {error}") from None
    return choice.message.content.strip()


def _posted(
    scheme: str, address: str, path: str, body: str, headers: dict[str, str]
) -> tuple[int, bytes, float | None]:
    """Status, answer, and after how many seconds to ask again, if the server says so."""
    if scheme == "https":
        context = ssl.create_default_context()
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(
            address, timeout=_TIMEOUT_S, context=context
        )
    else:
        connection = http.client.HTTPConnection(address, timeout=_TIMEOUT_S)
    try:
        connection.request("POST", path, body.encode(), headers)
        with connection.getresponse() as reply:
            again = reply.getheader("Retry-After", "")
            again_s = float(again) if again.isdecimal() else None
            return reply.status, reply.read(_MAX_BYTES), again_s
    finally:
        connection.close()
