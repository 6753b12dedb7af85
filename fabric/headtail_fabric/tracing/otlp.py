"""Spans to an OpenTelemetry collector, by the package opentelemetry-sdk.

The spans are over when they are told, so they are handed to the SDK's processor as they are; its
tracer, which keeps open spans in a thread's context, is not used.
"""

import importlib
import time
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from headtail_fabric.clock import Clock
from headtail_fabric.errors import ConfigError
from headtail_fabric.tracing.context import TraceContext
from headtail_fabric.tracing.span import Span

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor

_PATH: Final = "/v1/traces"
_TIMEOUT_S: Final = 5
_QUEUE: Final = 4096


class TracingMissingError(ConfigError):
    """Tracing needs the packages of OpenTelemetry. Install them with `pip install
    'headtail[tracing]'`, or leave `tracing.endpoint` empty."""


class BadCollectorError(ConfigError):
    """That is no address of a collector. Give the base address of its OTLP receiver over HTTP, such
    as http://127.0.0.1:4318."""


class SdkSink:
    """A `SpanSink` on any processor of the SDK. Raises TracingMissingError."""

    def __init__(
        self, processor: "SpanProcessor", *, service: str, instance: str, clock: Clock
    ) -> None:
        self._sdk = _module("opentelemetry.sdk.trace")
        self._api = _module("opentelemetry.trace")
        resources = _module("opentelemetry.sdk.resources")
        self._resource = resources.Resource.create(
            {"service.name": service, "service.instance.id": instance}
        )
        self._processor = processor
        # Spans of two machines are placed by each one's calendar; lengths are exact.
        self._epoch_ns = time.time_ns() - round(clock.now() * 1e9)

    def tell(self, span: Span) -> None:
        status = self._api.Status(
            self._api.StatusCode.ERROR if span.failed else self._api.StatusCode.OK,
            span.failed or None,
        )
        told = self._sdk.ReadableSpan(
            name=span.name,
            context=self._place(span.context),
            parent=None if span.parent is None else self._place(span.parent),
            resource=self._resource,
            attributes=dict(span.attributes),
            status=status,
            start_time=self._ns(span.begin_s),
            end_time=self._ns(max(span.begin_s, span.end_s)),
        )
        self._processor.on_end(told)

    def close(self) -> None:
        self._processor.shutdown()

    def _place(self, context: TraceContext) -> Any:
        return self._api.SpanContext(
            trace_id=int.from_bytes(context.trace_id),
            span_id=int.from_bytes(context.span_id),
            is_remote=False,
            trace_flags=self._api.TraceFlags(self._api.TraceFlags.SAMPLED),
        )

    def _ns(self, seconds: float) -> int:
        return self._epoch_ns + round(seconds * 1e9)


def otlp_sink(endpoint: str, *, service: str, instance: str, clock: Clock) -> SdkSink:
    """A sink that sends batches to the collector at `endpoint` from a thread of its own; what it
    can't take in time is dropped. Raises TracingMissingError, BadCollectorError."""
    url = urlsplit(endpoint)
    if url.scheme not in ("http", "https") or not url.hostname:
        raise BadCollectorError(f"{endpoint[:100]!r} is no http:// address")
    exporting = _module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    export = _module("opentelemetry.sdk.trace.export")
    exporter = exporting.OTLPSpanExporter(endpoint=endpoint.rstrip("/") + _PATH, timeout=_TIMEOUT_S)
    processor = export.BatchSpanProcessor(
        exporter, max_queue_size=_QUEUE, export_timeout_millis=_TIMEOUT_S * 1000
    )
    return SdkSink(processor, service=service, instance=instance, clock=clock)


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise TracingMissingError(f"the package {name} is not installed") from None
