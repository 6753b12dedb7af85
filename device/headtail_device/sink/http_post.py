"""One HTTP POST at a time over one connection."""

import contextlib
import http.client
import ssl
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from headtail_fabric.errors import ConfigError

_TIMEOUT_S: Final = 10.0
_ANSWER_BYTES: Final = 64 * 1024
_TRY_AGAIN: Final = frozenset({408, 425, 429})


class BadWebhookError(ConfigError):
    """The webhook's address is none. Give one such as https://example.org/frames."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a server said; `retry_after_s` is 0 when it did not say."""

    status: int
    retry_after_s: float = 0.0

    @property
    def accepted(self) -> bool:
        return 200 <= self.status < 300

    @property
    def temporary(self) -> bool:
        """Whether the same may be accepted later."""
        return self.status >= 500 or self.status in _TRY_AGAIN


class HttpPost:
    """Posts to one address. Redirects are not followed."""

    def __init__(self, address: str) -> None:
        """Raises BadWebhookError."""
        try:
            parts = urlsplit(address)
            port = parts.port
        except ValueError as error:
            raise BadWebhookError(f"{address[:64]!r}: {error}") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BadWebhookError(f"{parts.scheme or address[:64]!r} is no http:// or https://")
        if not address.isascii() or not address.isprintable() or " " in address:
            raise BadWebhookError("the webhook's address has characters that must be escaped")
        self.name = f"{parts.scheme}://{parts.hostname}" + (f":{port}" if port else "")
        """Without the path and the query, which may be secret."""
        self._target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._connection = (
            http.client.HTTPSConnection(
                parts.hostname, port, timeout=_TIMEOUT_S, context=ssl.create_default_context()
            )
            if parts.scheme == "https"
            else http.client.HTTPConnection(parts.hostname, port, timeout=_TIMEOUT_S)
        )

    def __call__(self, body: bytes) -> Reply:
        """Raises OSError, http.client.HTTPException when there is no answer."""
        try:
            self._connection.request(
                "POST", self._target, body, {"Content-Type": "application/x-ndjson"}
            )
            answer = self._connection.getresponse()
            if len(answer.read(_ANSWER_BYTES)) == _ANSWER_BYTES:
                self._connection.close()  # what more it has to say is not read
        except BaseException:
            self._connection.close()
            raise
        return Reply(status=answer.status, retry_after_s=_seconds(answer.getheader("Retry-After")))

    def close(self) -> None:
        self._connection.close()


def _seconds(text: str | None) -> float:
    """Of a date, which it may be too, nothing is made."""
    with contextlib.suppress(ValueError):
        return max(0.0, float(int(text or "")))
    return 0.0
