"""Lines as application/x-ndjson, by HTTP: one POST at a time over one connection."""

import contextlib
import http.client
import ssl
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from headtail_device.sink.remote import NotCarriedError, Refusal
from headtail_fabric.errors import ConfigError

_TIMEOUT_S: Final = 10.0
_ANSWER_BYTES: Final = 64 * 1024
_TRY_AGAIN: Final = frozenset({408, 425, 429})


class BadWebhookError(ConfigError):
    """The webhook's address is none. Give one such as https://example.org/frames."""


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

    def carry(self, lines: Sequence[bytes]) -> Refusal | None:
        """No answer, 408, 425, 429 and 5xx are for now, another status than 2xx is for good."""
        try:
            answer = self._post(b"".join(lines))
        except (OSError, http.client.HTTPException) as error:
            raise NotCarriedError(f"{type(error).__name__}: {error}") from None
        if 200 <= answer.status < 300:
            return None
        return Refusal(
            reason=f"status {answer.status}",
            temporary=answer.status >= 500 or answer.status in _TRY_AGAIN,
            retry_after_s=_seconds(answer.getheader("Retry-After")),
        )

    def _post(self, body: bytes) -> http.client.HTTPResponse:
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
        return answer

    def close(self) -> None:
        self._connection.close()


def _seconds(text: str | None) -> float:
    """Of a date, which it may be too, nothing is made."""
    with contextlib.suppress(ValueError):
        return max(0.0, float(int(text or "")))
    return 0.0
