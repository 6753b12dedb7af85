"""One event, one line: logfmt for people, JSON lines for collectors.

    log = logging.getLogger(__name__)
    log.info("session opened", extra=fields(session=session, user=user))

    time=2026-05-01T12:00:00.123Z level=info logger=... message="session opened" user=cam

What a peer sent is never trusted to be text: control and other unprintable characters are
escaped, so nobody can forge a line or steer a terminal, and long values are cut.
"""

import json
import logging
import math
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Final, Literal, TextIO

MAX_VALUE_CHARS: Final = 1024
MAX_TRACEBACK_CHARS: Final = 16 * 1024

LogFormat = Literal["text", "json"]
Level = Literal["debug", "info", "warning", "error"]

_RESERVED: Final = frozenset({"time", "level", "logger", "message", "exception"})
_ATTRIBUTE: Final = "headtail_fields"


def fields(**values: object) -> dict[str, object]:
    """The `extra=` of a logging call. Bytes are shown as hex; a name that each line has anyway,
    such as `level`, gets an underscore behind it."""
    return {_ATTRIBUTE: {f"{k}_" if k in _RESERVED else k: v for k, v in values.items()}}


def configure(
    *, level: Level = "info", log_format: LogFormat = "text", stream: TextIO | None = None
) -> None:
    """Send everything from `level` up to `stream` (standard error), in place of what was there."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


class TextFormatter(logging.Formatter):
    """`key=value` pairs, values quoted where they need it."""

    def format(self, record: logging.LogRecord) -> str:
        return " ".join(f"{key}={_quoted(_text(value))}" for key, value in _pairs(self, record))


class JsonFormatter(logging.Formatter):
    """One JSON object, ASCII only."""

    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(dict(_pairs(self, record)))


_Plain = str | int | float | None


def _pairs(formatter: logging.Formatter, record: logging.LogRecord) -> Iterator[tuple[str, _Plain]]:
    moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    yield "time", moment.replace("+00:00", "Z")
    yield "level", record.levelname.lower()
    yield "logger", record.name
    yield "message", _plain(record.getMessage())
    values = getattr(record, _ATTRIBUTE, {})
    if isinstance(values, Mapping):
        for key, value in values.items():
            yield str(key), _plain(value)
    if record.exc_info:
        # The end of a traceback says what went wrong.
        yield "exception", formatter.formatException(record.exc_info)[-MAX_TRACEBACK_CHARS:]


def _plain(value: object) -> _Plain:
    """`value` as what JSON knows; text is cut to `MAX_VALUE_CHARS`."""
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        text = bytes(value[: MAX_VALUE_CHARS // 2 + 1]).hex()
    else:
        text = str(value)
    return text if len(text) <= MAX_VALUE_CHARS else f"{text[:MAX_VALUE_CHARS]}..."


def _text(value: _Plain) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return str(value).lower()
        case float():
            return f"{value:.6g}"
        case _:
            return str(value)


def _quoted(text: str) -> str:
    plain = text.isprintable() and not any(character in ' ="\\' for character in text)
    if text and plain:
        return text
    return '"' + printable(text.replace("\\", "\\\\").replace('"', '\\"')) + '"'


def printable(text: str) -> str:
    """`text` on one line, with escapes in place of what would steer a terminal."""
    return "".join(
        character if character.isprintable() else _escaped(character) for character in text
    )


def _escaped(character: str) -> str:
    if character in "\n\r\t":
        return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}[character]
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
