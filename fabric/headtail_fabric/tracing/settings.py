"""What an operator can set of tracing, on a device and on an edge alike."""

import secrets
from typing import Annotated

import msgspec
from msgspec import Meta

from headtail_fabric.clock import Clock
from headtail_fabric.tracing.otlp import SdkSink, otlp_sink


class TracingConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Traces of frames from capture to answer, to an OpenTelemetry collector."""

    endpoint: Annotated[
        str,
        Meta(
            max_length=512,
            description="The collector's OTLP receiver over HTTP, such as http://127.0.0.1:4318; "
            "needs the extra `tracing`. Empty: no traces. Sealed frames are traced on the device "
            "alone.",
        ),
    ] = ""
    share: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="The part of the frames that a device traces; an edge follows those that "
            "devices trace.",
        ),
    ] = 1.0


def open_sink(
    config: TracingConfig, *, service: str, instance: str, clock: Clock
) -> SdkSink | None:
    """Where spans go; None where none are wanted. Raises TracingMissingError,
    BadCollectorError."""
    if not config.endpoint:
        return None
    return otlp_sink(config.endpoint, service=service, instance=instance, clock=clock)


def random_ids(size: int) -> bytes:
    """For the ids of spans."""
    return secrets.token_bytes(size)
