"""A client of an HTTP server: the same POST again and again, over one connection."""

from collections.abc import Mapping
from typing import Final

from headtail.load.closed_loop import Answer

_LENGTH: Final = b"\r\ncontent-length:"
_CHUNKED: Final = b"\r\ntransfer-encoding: chunked"
_LAST_CHUNK: Final = b"\r\n0\r\n\r\n"


class HttpDialogue:
    """One request at a time; an answer counts when it is 200 and whole."""

    is_open: Final = True

    def __init__(self, *, path: str, body: bytes, headers: Mapping[str, str]) -> None:
        lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self._request = "\r\n".join([*lines, "", ""]).encode() + body
        self._heard = b""
        self._asked = 0

    def open(self) -> bytes:
        return b""

    def ask(self) -> tuple[int, bytes]:
        self._asked += 1
        return self._asked, self._request

    def beat(self) -> bytes:
        return b""

    def hear(self, data: bytes) -> tuple[list[Answer], bytes]:
        self._heard += data
        head, end, body = self._heard.partition(b"\r\n\r\n")
        if not end:
            return [], b""
        fields = head.lower()
        _, said, rest = fields.partition(_LENGTH)
        if head.split(maxsplit=2)[1:2] != [b"200"] or not (said or _CHUNKED in fields):
            raise RuntimeError(f"the server answered {self._heard[:200]!r}")
        if said:
            is_whole = len(body) >= int(rest.partition(b"\r\n")[0])
        else:
            is_whole = body.endswith(_LAST_CHUNK)
        if not is_whole:
            return [], b""
        self._heard = b""
        return [Answer(self._asked)], b""
