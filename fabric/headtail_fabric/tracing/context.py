"""The traceparent of W3C Trace Context (level 1): which trace, and which of its spans is meant."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Self

from headtail_fabric.errors import PeerError

_TEXT: Final = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_SAMPLED: Final = 1


class BadTraceError(PeerError):
    """A traceparent that is none came with a request. The request is answered, and not traced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceContext:
    """A span's place: ids of 16 and 8 bytes, neither of which is zero."""

    trace_id: bytes
    span_id: bytes

    @classmethod
    def new(cls, random: Callable[[int], bytes]) -> Self:
        """The first span of a new trace; `random` gives random bytes."""
        return cls(trace_id=_id(random, 16), span_id=_id(random, 8))

    def child(self, random: Callable[[int], bytes]) -> "TraceContext":
        """Another span of the same trace."""
        return TraceContext(trace_id=self.trace_id, span_id=_id(random, 8))

    def to_text(self) -> str:
        """`00-TRACE-SPAN-01`, 55 characters."""
        return f"00-{self.trace_id.hex()}-{self.span_id.hex()}-{_SAMPLED:02x}"

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """None for a trace that is not recorded. Raises BadTraceError."""
        match = _TEXT.fullmatch(text)
        if match is None:
            raise BadTraceError(f"{text[:60]!r} is no traceparent")
        trace_id, span_id, flags = (bytes.fromhex(part) for part in match.groups())
        if not any(trace_id) or not any(span_id):
            raise BadTraceError("a traceparent of zeros")
        return cls(trace_id=trace_id, span_id=span_id) if flags[0] & _SAMPLED else None


def _id(random: Callable[[int], bytes], size: int) -> bytes:
    found = random(size)
    return found if any(found) else bytes([*found[:-1], 1])
