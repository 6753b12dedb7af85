import random

import numpy as np
import pytest

from headtail_device.frame_traces import FrameTraces
from headtail_device.head import Encoded
from headtail_device.ledger import Latency, Outcome
from headtail_device.record import FrameRecord
from headtail_device.source.frame import Frame
from headtail_fabric.tracing import Span, TraceContext

ENCODED = Encoded(
    tensors=(), payloads=(), geometry=None, prepare_s=0.01, compute_s=0.03, encode_s=0.005
)


class Told:
    def __init__(self) -> None:
        self.spans: dict[str, Span] = {}
        self.closed = False

    def tell(self, span: Span) -> None:
        assert span.name not in self.spans
        self.spans[span.name] = span

    def close(self) -> None:
        self.closed = True


def traces(told: Told, *, share: float = 1.0) -> FrameTraces:
    draw = random.Random(4)
    return FrameTraces(told, share=share, draw=draw.random, random=draw.randbytes)


def frame(index: int = 3) -> Frame:
    return Frame(
        index=index,
        origin="camera",
        data=np.zeros((4, 4, 3), np.uint8),
        captured_at=10.0,
        deadline_s=2.0,
    )


def record(outcome: Outcome, *, index: int = 3, reason: str = "") -> FrameRecord:
    return FrameRecord(
        index=index,
        origin="camera",
        outcome=outcome,
        captured_at=10.0,
        cut="L7",
        codec="q8",
        bytes_up=900,
        bytes_down=50,
        attempts=1,
        latency=Latency(head_s=0.045, total_s=0.2),
        reason=reason,
    )


def test_a_frame_that_the_edge_answers_is_told_from_capture_to_answer() -> None:
    told = Told()
    followed = traces(told)
    parent = TraceContext.parse(followed.sending(frame(), ENCODED, 10.06))
    followed.finished(record(Outcome.EDGE))
    spans = told.spans
    assert {name: (span.begin_s, span.end_s) for name, span in spans.items()} == {
        "head": pytest.approx((10.015, 10.055)),
        "encode": pytest.approx((10.055, 10.06)),
        "wire": pytest.approx((10.06, 10.2)),
        "frame": pytest.approx((10.0, 10.2)),
    }
    root = spans["frame"].context
    assert spans["frame"].parent is None
    assert spans["head"].parent == spans["encode"].parent == spans["wire"].parent == root
    assert spans["wire"].context == parent
    assert spans["wire"].attributes["headtail.bytes_up"] == 900
    assert spans["frame"].attributes["headtail.outcome"] == "edge"
    assert not any(span.failed for span in spans.values())


def test_one_that_the_edge_did_not_answer_says_why() -> None:
    told = Told()
    followed = traces(told)
    followed.sending(frame(), ENCODED, 10.06)
    followed.finished(record(Outcome.DEGRADED, reason="the edge was too busy"))
    assert told.spans["wire"].failed == "not answered in time"
    assert told.spans["frame"].failed == "the edge was too busy"


def test_what_was_not_sent_or_is_told_twice_leaves_no_trace() -> None:
    told = Told()
    followed = traces(told)
    followed.finished(record(Outcome.LOCAL))
    assert told.spans == {}
    followed.sending(frame(), ENCODED, 10.06)
    followed.finished(record(Outcome.EDGE))
    followed.finished(record(Outcome.EDGE))
    followed.close()
    assert told.closed


def test_a_share_of_the_frames_is_followed() -> None:
    followed = traces(Told(), share=0.25)
    sent = [followed.sending(frame(index), ENCODED, 10.0) for index in range(1000)]
    assert 200 < sum(map(bool, sent)) < 300
    assert not any(traces(Told(), share=0.0).sending(frame(), ENCODED, 1.0) for _ in range(9))
