"""Where finished frames go."""

from headtail_device.sink.base import Sink, SinkError
from headtail_device.sink.board import SinkBoard
from headtail_device.sink.jsonlines import JsonLinesSink
from headtail_device.sink.pictures import AnnotatedPicturesSink
from headtail_device.sink.remote import RemoteSink
from headtail_device.sink.video import AnnotatedVideoSink

__all__ = [
    "AnnotatedPicturesSink",
    "AnnotatedVideoSink",
    "JsonLinesSink",
    "RemoteSink",
    "Sink",
    "SinkBoard",
    "SinkError",
]
