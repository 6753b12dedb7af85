"""The device's part of a frame's trace.

frame            from capture to its outcome
  |- head        the network here
  |- encode
  `- wire        from the request's sending to its answer; the edge's spans belong to it
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from headtail_device.head import Encoded
from headtail_device.ledger import Outcome
from headtail_device.record import FrameRecord
from headtail_device.source.frame import Frame
from headtail_fabric.tracing import Span, SpanSink, TraceContext
from headtail_fabric.tracing.span import Attribute

_MOST: Final = 10_000
_AS_WISHED: Final = frozenset({Outcome.EDGE, Outcome.LOCAL, Outcome.EXIT, Outcome.FILTERED})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sent:
    root: TraceContext
    wire: TraceContext
    encoded: Encoded
    sent_at: float


class FrameTraces:
    """Follows frames by their index; all calls from one thread. `draw` gives numbers in [0, 1),
    `random` random bytes."""

    def __init__(
        self,
        sink: SpanSink,
        *,
        share: float,
        draw: Callable[[], float],
        random: Callable[[int], bytes],
    ) -> None:
        self._sink = sink
        self._share = share
        self._draw = draw
        self._random = random
        self._sent: OrderedDict[int, _Sent] = OrderedDict()

    def sending(self, frame: Frame, encoded: Encoded, now: float) -> str:
        """A frame's request is about to leave: the traceparent to go with it, "" for none."""
        if self._draw() >= self._share:
            return ""
        root = TraceContext.new(self._random)
        wire = root.child(self._random)
        self._sent[frame.index] = _Sent(root=root, wire=wire, encoded=encoded, sent_at=now)
        while len(self._sent) > _MOST:
            self._sent.popitem(last=False)
        return wire.to_text()

    def finished(self, record: FrameRecord) -> None:
        """The frame has its outcome."""
        sent = self._sent.pop(record.index, None)
        if sent is None or record.captured_at is None:
            return
        encoded = sent.encoded
        encode_at = sent.sent_at - encoded.encode_s
        head_at = encode_at - encoded.prepare_s - encoded.compute_s
        total_s = 0.0 if record.latency is None else record.latency.total_s
        ends_at = max(sent.sent_at, record.captured_at + total_s)
        self._child("head", sent, head_at, encode_at)
        self._child("encode", sent, encode_at, sent.sent_at)
        answered = record.outcome is Outcome.EDGE
        self._tell(
            Span(
                name="wire",
                context=sent.wire,
                parent=sent.root,
                begin_s=sent.sent_at,
                end_s=ends_at,
                attributes={
                    "headtail.bytes_up": record.bytes_up,
                    "headtail.bytes_down": record.bytes_down,
                    "headtail.attempts": record.attempts,
                },
                failed="" if answered else "not answered in time",
            )
        )
        self._tell(
            Span(
                name="frame",
                context=sent.root,
                parent=None,
                begin_s=record.captured_at,
                end_s=ends_at,
                attributes=_attributes(record),
                failed="" if record.outcome in _AS_WISHED else record.reason or "degraded",
            )
        )

    def close(self) -> None:
        """Send what is left."""
        self._sink.close()

    def _child(self, name: str, sent: _Sent, begin_s: float, end_s: float) -> None:
        context = sent.root.child(self._random)
        self._tell(Span(name=name, context=context, parent=sent.root, begin_s=begin_s, end_s=end_s))

    def _tell(self, span: Span) -> None:
        self._sink.tell(span)


def _attributes(record: FrameRecord) -> dict[str, Attribute]:
    return {
        "headtail.frame": record.index,
        "headtail.outcome": record.outcome.value,
        "headtail.cut": record.cut or "",
        "headtail.codec": record.codec or "",
        "headtail.macs": record.macs,
    }
