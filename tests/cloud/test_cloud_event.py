import base64
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headtail_cloud.serverless.cloud_event import (
    STRUCTURED,
    BadEventError,
    encode_event,
    is_event,
    parse_event,
)

BINARY = {
    "ce-specversion": "1.0",
    "ce-id": "7",
    "ce-source": "/camera/caf%C3%A9",
    "ce-type": "frame",
    "ce-traceparent": "00-1",
    "content-type": "application/json",
}
FIELDS = {"specversion": "1.0", "id": "7", "source": "/camera", "type": "frame"}
JSON_MODE = {"content-type": f"{STRUCTURED}; charset=utf-8"}


def structured(**fields: object) -> bytes:
    return json.dumps({**FIELDS, **fields}).encode()


def test_binary_mode() -> None:
    event = parse_event(BINARY, b"{}")
    assert (event.id, event.source, event.type) == ("7", "/camera/caf\u00e9", "frame")
    assert event.extensions == {"traceparent": "00-1"}
    assert bytes(event.data) == b"{}"
    answer = event.answer(b"ab", kind="done", source="/caf\u00e9", content_type="text/plain")
    headers, body = encode_event(answer)
    assert body == b"ab"
    assert headers == {
        "content-type": "text/plain",
        "ce-specversion": "1.0",
        "ce-id": "7",
        "ce-source": "/caf%C3%A9",
        "ce-type": "done",
    }


def test_structured_mode() -> None:
    event = parse_event(JSON_MODE, structured(data={"a": 1}, subject="s"))
    assert json.loads(bytes(event.data)) == {"a": 1}
    answer = event.answer(b'{"b":2}', kind="k", source="/x", content_type="application/json")
    headers, body = encode_event(answer)
    assert headers == {"content-type": STRUCTURED}
    told = json.loads(body)
    assert (told["data"], told["subject"], told["id"]) == ({"b": 2}, "s", "7")


def test_structured_mode_with_bytes() -> None:
    event = parse_event(JSON_MODE, structured(data_base64=base64.b64encode(b"\x00\xff").decode()))
    assert event.data == b"\x00\xff"
    answer = event.answer(b"\xfe", kind="k", source="/x", content_type="application/octet-stream")
    assert json.loads(encode_event(answer)[1])["data_base64"] == "/g=="


def test_what_is_an_event() -> None:
    assert is_event(BINARY)
    assert is_event(JSON_MODE)
    assert not is_event({"content-type": "application/json"})


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({**BINARY, "ce-specversion": "0.3"}, b"{}"),
        ({"ce-specversion": "1.0", "ce-id": "7", "ce-source": "/"}, b"{}"),
        (JSON_MODE, b"[]"),
        (JSON_MODE, structured()),
        (JSON_MODE, structured(data_base64="!")),
        (JSON_MODE, structured(specversion="2.0", data=1)),
        (JSON_MODE, structured(id="", data=1)),
        (JSON_MODE, b"[" * 100_000),
    ],
)
def test_refuses_what_is_none(headers: dict[str, str], body: bytes) -> None:
    with pytest.raises(BadEventError):
        parse_event(headers, body)


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=80))
def test_anything_else_is_a_bad_event(body: bytes) -> None:
    with pytest.raises(BadEventError):
        parse_event(JSON_MODE, body)
