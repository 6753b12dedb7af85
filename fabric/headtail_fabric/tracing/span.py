"""One stretch of one frame's way, told once it is over."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from headtail_fabric.tracing.context import TraceContext

Attribute = str | int | float | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """`begin_s` and `end_s` are the local clock's, as all times here. `failed` says why it did not
    come to what it should."""

    name: str
    context: TraceContext
    parent: TraceContext | None
    begin_s: float
    end_s: float
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    failed: str = ""


class SpanSink(Protocol):
    """Takes spans, from any thread, without waiting."""

    def tell(self, span: Span) -> None: ...

    def close(self) -> None:
        """Send what is left, for a few seconds at most."""
        ...
