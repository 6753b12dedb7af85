"""CloudEvents 1.0 (cloudevents.io), JSON format and HTTP binding, in both content modes.

binary      attributes in `ce-` headers, the body is the data
structured  all of it in one JSON object, `application/cloudevents+json`
"""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final
from urllib.parse import quote, unquote

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from headtail_fabric.errors import PeerError
from headtail_fabric.wire import Buffer

STRUCTURED: Final = "application/cloudevents+json"
_VERSION: Final = "1.0"
_PREFIX: Final = "ce-"
_KEPT: Final = " !\"#$&'()*+,-./:;<=>?@[]^_`{|}~"
"""Of a header value, besides letters and digits: what is not percent-encoded, by the binding."""

_Text = Annotated[str, Meta(min_length=1, max_length=1024)]


class BadEventError(PeerError):
    """What came is no CloudEvent that this function takes. Send version 1.0 with id, source and
    type, and an Open Inference Protocol request as its data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudEvent:
    """`extensions`: further attributes, as they came; `structured`: in which mode."""

    id: str
    source: str
    type: str
    data: Buffer
    content_type: str
    subject: str | None = None
    extensions: Mapping[str, str]
    structured: bool

    def answer(self, data: bytes, *, kind: str, source: str, content_type: str) -> "CloudEvent":
        """An event about this one, in the same mode; its id is this one's, `source` another."""
        return CloudEvent(
            id=self.id,
            source=source,
            type=kind,
            data=data,
            content_type=content_type,
            subject=self.subject,
            extensions={},
            structured=self.structured,
        )


class _Structured(msgspec.Struct, frozen=True, kw_only=True):
    specversion: str
    id: _Text
    source: _Text
    type: _Text
    datacontenttype: Annotated[str, Meta(max_length=256)] = "application/json"
    subject: _Text | None = None
    data: Raw | UnsetType = UNSET
    data_base64: str | UnsetType = UNSET


def is_event(headers: Mapping[str, str]) -> bool:
    """Whether a request with those headers (names in lower case) carries one."""
    return _is_structured(headers) or f"{_PREFIX}specversion" in headers


def parse_event(headers: Mapping[str, str], body: Buffer) -> CloudEvent:
    """Raises BadEventError, whatever comes."""
    if _is_structured(headers):
        return _from_json(body)
    attributes = {
        name.removeprefix(_PREFIX): unquote(value)
        for name, value in headers.items()
        if name.startswith(_PREFIX)
    }
    _check_version(attributes.pop("specversion", ""))
    try:
        known = {name: attributes.pop(name) for name in ("id", "source", "type")}
    except KeyError as missing:
        raise BadEventError(f"the event has no {missing.args[0]}") from None
    return CloudEvent(
        **known,
        subject=attributes.pop("subject", None),
        data=body,
        content_type=headers.get("content-type", "application/json"),
        extensions=attributes,
        structured=False,
    )


def encode_event(event: CloudEvent) -> tuple[dict[str, str], bytes]:
    """Headers and body of it, in its mode."""
    if event.structured:
        return {"content-type": STRUCTURED}, _to_json(event)
    attributes = {"id": event.id, "source": event.source, "type": event.type}
    if event.subject is not None:
        attributes["subject"] = event.subject
    headers = {"content-type": event.content_type, f"{_PREFIX}specversion": _VERSION}
    headers |= {f"{_PREFIX}{name}": quote(text, safe=_KEPT) for name, text in attributes.items()}
    return headers, bytes(event.data)


def _is_structured(headers: Mapping[str, str]) -> bool:
    return headers.get("content-type", "").partition(";")[0].strip().lower() == STRUCTURED


def _from_json(body: Buffer) -> CloudEvent:
    try:
        event = msgspec.json.decode(body, type=_Structured)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadEventError(f"not an event: {error}") from None
    _check_version(event.specversion)
    return CloudEvent(
        id=event.id,
        source=event.source,
        type=event.type,
        subject=event.subject,
        data=_data(event),
        content_type=event.datacontenttype,
        extensions={},
        structured=True,
    )


def _data(event: _Structured) -> bytes:
    if event.data_base64 is not UNSET:
        try:
            return base64.b64decode(event.data_base64, validate=True)
        except binascii.Error:
            raise BadEventError("the event's data_base64 is not base64") from None
    if event.data is UNSET:
        raise BadEventError("the event has no data")
    return bytes(event.data)


def _to_json(event: CloudEvent) -> bytes:
    fields: dict[str, object] = {
        "specversion": _VERSION,
        "id": event.id,
        "source": event.source,
        "type": event.type,
        "datacontenttype": event.content_type,
    }
    if event.subject is not None:
        fields["subject"] = event.subject
    if event.content_type == "application/json":
        fields["data"] = Raw(bytes(event.data))
    else:
        fields["data_base64"] = base64.b64encode(event.data).decode()
    return msgspec.json.encode(fields)


def _check_version(version: str) -> None:
    if version != _VERSION:
        raise BadEventError(f"CloudEvents {version[:20]!r}, this function takes {_VERSION}")
