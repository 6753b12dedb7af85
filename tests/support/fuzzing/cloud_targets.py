"""Parsers of `headtail_cloud`: the bodies of HTTP requests, and events."""

import numpy as np

from fuzzing.framing import join, split
from fuzzing.target import Target
from headtail_cloud.open_inference.message import encode_request, parse_request
from headtail_cloud.serverless.cloud_event import CloudEvent, encode_event, parse_event


def parse_inference(data: bytes) -> None:
    """Frames: the header that says how much is JSON, none for all of it; and the body."""
    length, body = [*split(data), b"", b""][:2]
    parse_request(body, length.decode("latin-1") or None)


def inference_corpus() -> list[bytes]:
    tensor = np.arange(6, dtype=np.float32).reshape(1, 6)
    made = [
        encode_request("t", tensor, binary=binary, outputs=("a",), timeout_s=1.0)
        for binary in (True, False)
    ]
    return [join([str(size or "").encode(), body]) for body, size in made]


def parse_cloud_event(data: bytes) -> None:
    """Frames: names and values of headers in turn, and last the body."""
    frames = split(data)
    texts = [frame.decode("latin-1") for frame in frames[:-1]]
    headers = dict(zip(texts[::2], texts[1::2], strict=False))
    parse_event(headers, frames[-1] if frames else b"")


def cloud_event_corpus() -> list[bytes]:
    events = [
        CloudEvent(
            id="1",
            source="/cam-1",
            type="headtail.infer",
            subject="L7",
            data=b'{"a": 1}',
            content_type="application/json",
            extensions={},
            structured=structured,
        )
        for structured in (True, False)
    ]
    found = []
    for headers, body in map(encode_event, events):
        words = [word.encode() for pair in headers.items() for word in pair]
        found.append(join([*words, body]))
    return found


TARGETS = (
    Target(
        name="open-inference",
        what="bodies of inference requests",
        parsers=(parse_inference,),
        corpus=inference_corpus,
    ),
    Target(
        name="cloud-event",
        what="CloudEvents, both modes",
        parsers=(parse_cloud_event,),
        corpus=cloud_event_corpus,
    ),
)
