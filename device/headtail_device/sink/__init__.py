"""Where finished frames go."""

from headtail_device.sink.base import Sink, SinkError
from headtail_device.sink.board import SinkBoard
from headtail_device.sink.jsonlines import JsonLinesSink
from headtail_device.sink.pictures import AnnotatedPicturesSink
from headtail_device.sink.video import AnnotatedVideoSink
from headtail_device.sink.webhook import WebhookSink

__all__ = [
    "AnnotatedPicturesSink",
    "AnnotatedVideoSink",
    "JsonLinesSink",
    "Sink",
    "SinkBoard",
    "SinkError",
    "WebhookSink",
]
