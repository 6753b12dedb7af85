import io
import json
import logging
import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headtail_fabric import logs
from headtail_fabric.logs import fields

PAIR = re.compile(r'([^ =]+)=("(?:[^"\\]|\\.)*"|[^ "]+)(?: |$)')


def record(message: str = "session opened", **values: object) -> logging.LogRecord:
    made = logging.makeLogRecord(
        {
            "name": "headtail_edge.server",
            "levelno": logging.INFO,
            "levelname": "INFO",
            "msg": message,
            **fields(**values),
        }
    )
    made.created = 1_777_636_800.1239
    return made


def text(message: str = "session opened", **values: object) -> str:
    return logs.TextFormatter().format(record(message, **values))


def as_json(message: str = "session opened", **values: object) -> dict[str, object]:
    parsed = json.loads(logs.JsonFormatter().format(record(message, **values)))
    assert isinstance(parsed, dict)
    return parsed


def test_a_line_of_text() -> None:
    line = text(session=b"\x01\xff", user="cam-1", wait_s=0.123456789, count=3, ok=True, key=None)
    assert line == (
        "time=2026-05-01T12:00:00.123Z level=info logger=headtail_edge.server "
        'message="session opened" session=01ff user=cam-1 wait_s=0.123457 count=3 ok=true key=none'
    )


def test_a_line_of_json_keeps_numbers() -> None:
    assert as_json(session=b"\x01\xff", wait_s=0.5, count=3, ok=True, key=None, at={1: 2}) == {
        "time": "2026-05-01T12:00:00.123Z",
        "level": "info",
        "logger": "headtail_edge.server",
        "message": "session opened",
        "session": "01ff",
        "wait_s": 0.5,
        "count": 3,
        "ok": True,
        "key": None,
        "at": "{1: 2}",
    }
    assert as_json(nothing=float("nan"), most=float("inf"))["nothing"] == "nan"


def test_a_peer_can_not_forge_a_line() -> None:
    line = text(reason='x\ntime=now level=info message="all is well"\x1b[2J\u202e\x9b\U000e0001')
    assert line.endswith(
        r'reason="x\ntime=now level=info message=\"all is well\"\u001b[2J\u202e\u009b\U000e0001"'
    )


@given(message=st.text(), value=st.text(max_size=logs.MAX_VALUE_CHARS))
def test_any_text_is_one_line_with_the_same_keys(message: str, value: str) -> None:
    line = text(message.replace("%", ""), value=value)
    assert line.isprintable()
    assert [key for key, _ in PAIR.findall(line)] == ["time", "level", "logger", "message", "value"]
    assert "".join(match[0] for match in PAIR.finditer(line)) == line
    encoded = logs.JsonFormatter().format(record("x", value=value))
    assert "\n" not in encoded
    assert json.loads(encoded)["value"] == value


def test_long_values_are_cut() -> None:
    assert as_json(value="x" * 5000)["value"] == "x" * logs.MAX_VALUE_CHARS + "..."
    assert as_json(value=b"x" * 5000)["value"] == "78" * (logs.MAX_VALUE_CHARS // 2) + "..."
    assert as_json("x" * 5000)["message"] == "x" * logs.MAX_VALUE_CHARS + "..."


def test_names_that_each_line_has_are_kept_apart() -> None:
    assert "level=info" in text(level="fatal")
    assert text(level="fatal").endswith(" level_=fatal")


def test_a_traceback_stays_on_its_line() -> None:
    made = record()
    try:
        raise ValueError("line\nbreak")
    except ValueError as error:
        made.exc_info = (type(error), error, error.__traceback__)
    line = logs.TextFormatter().format(made)
    assert "\n" not in line
    assert r"ValueError: line\nbreak" in line
    assert json.loads(logs.JsonFormatter().format(made))["exception"].endswith("line\nbreak")


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    logger = logging.getLogger()
    handlers, level = logger.handlers[:], logger.level
    logger.handlers = []
    yield logger
    logger.handlers, logger.level = handlers, level


def test_configure_sends_one_line_once(root: logging.Logger) -> None:
    stream = io.StringIO()
    logs.configure(level="debug", log_format="json", stream=io.StringIO())
    logs.configure(level="info", log_format="text", stream=stream)
    log = logging.getLogger("headtail_edge.server")
    log.info("%s opened", "session", extra=fields(user="cam 1"))
    log.debug("never seen")
    assert len(stream.getvalue().splitlines()) == 1
    assert stream.getvalue().endswith('message="session opened" user="cam 1"\n')


def test_configure_writes_to_standard_error(
    root: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.configure(log_format="json")
    logging.getLogger("x").error("gone")
    captured = capsys.readouterr()
    assert json.loads(captured.err)["message"] == "gone"
    assert captured.out == ""


def test_foreign_fields_do_no_harm() -> None:
    made = logging.makeLogRecord({"msg": "x", "headtail_fields": 3})
    assert logs.TextFormatter().format(made).endswith("message=x")
