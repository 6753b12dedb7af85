"""Traces of frames, from capture to answer, across device and edge (OpenTelemetry).

    context   the W3C traceparent that crosses the wire
    span      what is told: one stretch of one frame's way, and the seam to whoever takes it
    otlp      the exporter, OTLP over HTTP (the extra `tracing`)
    server    an edge's port that tells the spans of the requests that carry a traceparent

Off unless asked for. A sealed request never carries a traceparent: it would let a relay follow what
it must not know.
"""

from headtail_fabric.tracing.context import TraceContext
from headtail_fabric.tracing.span import Span, SpanSink

__all__ = ["Span", "SpanSink", "TraceContext"]
