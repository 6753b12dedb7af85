import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from headtail_fabric import wire
from headtail_fabric.clock import FakeClock
from headtail_fabric.peer.events import Answered, RequestArrived
from headtail_fabric.seal import Sealer
from headtail_fabric.seal.cipher import best_cipher
from headtail_fabric.tracing import Span, TraceContext
from headtail_fabric.tracing.context import BadTraceError
from headtail_fabric.tracing.otlp import (
    BadCollectorError,
    SdkSink,
    TracingMissingError,
    otlp_sink,
)
from headtail_fabric.tracing.server import RequestTraces, TracedServerPort
from headtail_fabric.tracing.settings import TracingConfig, open_sink, random_ids
from headtail_fabric.wire import Buffer, ErrorCode, Hints, Request, Timings, TracedRequest
from peers import ANSWER, DIGEST, TENSOR, Pair

# The example of the recommendation, section 3.2.4.
TEXT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
PARENT = TraceContext(
    trace_id=bytes.fromhex("0af7651916cd43dd8448eb211c80319c"),
    span_id=bytes.fromhex("b7ad6b7169203331"),
)


class Told:
    """A sink that keeps what it is told."""

    def __init__(self) -> None:
        self.spans: list[Span] = []

    def tell(self, span: Span) -> None:
        self.spans.append(span)

    def close(self) -> None:
        pass

    @property
    def named(self) -> dict[str, Span]:
        return {span.name: span for span in self.spans}


def seeded(seed: int) -> random.Random:
    return random.Random(seed)


def test_a_traceparent_is_read_and_written() -> None:
    assert TraceContext.parse(TEXT) == PARENT
    assert PARENT.to_text() == TEXT
    assert TraceContext.parse(TEXT[:-2] + "00") is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00",
        TEXT[:-1],
        TEXT + "-x",
        TEXT.upper(),
        "01" + TEXT[2:],
        TEXT.replace("b7", "zz"),
        "00-" + "0" * 32 + TEXT[35:],
        TEXT[:36] + "0" * 16 + "-01",
    ],
)
def test_what_is_no_traceparent_is_refused(text: str) -> None:
    with pytest.raises(BadTraceError):
        TraceContext.parse(text)


@given(st.integers(0, 2**32))
def test_new_contexts_and_children(seed: int) -> None:
    draw = seeded(seed).randbytes
    root = TraceContext.new(draw)
    child = root.child(draw)
    assert child.trace_id == root.trace_id
    assert child.span_id != root.span_id
    assert TraceContext.parse(child.to_text()) == child


def test_an_id_is_never_zero() -> None:
    assert TraceContext.new(bytes).to_text() == f"00-{1:032x}-{1:016x}-01"
    assert len(random_ids(8)) == 8


def traced_pair() -> tuple[Pair, Told, TracedServerPort]:
    pair, told = Pair(), Told()
    traces = RequestTraces(told, clock=pair.clock, random=seeded(1).randbytes)
    return pair, told, TracedServerPort(pair.server, traces)


def submit(pair: Pair, trace: str) -> None:
    pair.client.submit(
        bundle=DIGEST, cut="L7", tensors=[TENSOR], payloads=[b"x"], deadline_s=5.0, trace=trace
    )


def arrived(port: TracedServerPort) -> RequestArrived:
    while not isinstance(event := port.poll(0), RequestArrived):
        assert event is not None
    return event


def test_an_edge_tells_the_phases_of_a_traced_request() -> None:
    pair, told, port = traced_pair()
    submit(pair, TEXT)
    event = arrived(port)
    pair.clock.advance(0.1)
    timings = Timings(queue_us=20_000, decode_us=5_000, compute_us=30_000, post_us=1_000)
    port.respond(
        event.session,
        event.request.id,
        tensors=[ANSWER],
        payloads=[b"!"],
        timings=timings,
        hints=Hints(batch=3),
    )
    assert isinstance(pair.client_events()[0], Answered)
    spans = told.named
    assert set(spans) == {"queue", "tail", "decode", "compute", "answer"}
    begin = event.arrived_at
    lengths = {name: (span.begin_s - begin, span.end_s - begin) for name, span in spans.items()}
    assert lengths["queue"] == pytest.approx((0.0, 0.020))
    assert lengths["tail"] == pytest.approx((0.020, 0.055))
    assert lengths["decode"] == pytest.approx((0.020, 0.025))
    assert lengths["compute"] == pytest.approx((0.025, 0.055))
    assert lengths["answer"] == pytest.approx((0.055, 0.1))
    assert {span.context.trace_id for span in told.spans} == {PARENT.trace_id}
    assert spans["queue"].parent == spans["tail"].parent == PARENT
    assert spans["decode"].parent == spans["compute"].parent == spans["tail"].context
    assert spans["tail"].attributes["headtail.batch"] == 3
    assert spans["tail"].attributes["headtail.cut"] == "L7"


@pytest.mark.parametrize("trace", ["", "nonsense", TEXT[:-2] + "00"])
def test_a_request_without_a_trace_is_answered_and_not_told(trace: str) -> None:
    pair, told, port = traced_pair()
    submit(pair, trace)
    event = arrived(port)
    port.fail(event.session, event.request.id, ErrorCode.INTERNAL, "no")
    assert told.spans == []
    assert isinstance(event.request, Request)


def test_what_is_refused_cancelled_or_failed_says_so() -> None:
    pair, told, port = traced_pair()
    for _ in range(3):
        submit(pair, TEXT)
    first, second, third = arrived(port), arrived(port), arrived(port)
    port.fail(first.session, first.request.id, ErrorCode.BAD_PAYLOAD, "no")
    port.busy(second.session, second.request.id, retry_after_s=9.0, hints=Hints())
    pair.client.cancel(third.request.id)
    while port.poll(0) is not None:
        pass
    assert [(span.name, span.failed) for span in told.spans] == [
        ("queue", "bad_payload"),
        ("queue", "busy"),
        ("queue", "cancelled, or past its deadline"),
    ]


def test_the_other_calls_go_through() -> None:
    pair, _, port = traced_pair()
    port.serve_bundles([DIGEST])
    port.advertise(Hints(queue_ms=7))
    assert port.endpoint == "memory"
    assert port.traffic().messages_up > 0
    session = next(iter(pair.server.core._sessions))
    port.need_bundle(session, DIGEST, 0)
    port.refuse_bundle(session, DIGEST, "no")
    assert len(pair.client_events()) == 3
    port.drop_session(session, "enough")
    port.close()
    assert pair.server.core.sessions == 0


def test_what_is_sealed_carries_no_trace() -> None:
    pair = Pair(connect=False)
    sealer = Sealer(best_cipher().public(bytes(range(32))), pad_bytes=0, random=seeded(2).randbytes)
    sealer.begin(session=bytes(16), boot=bytes(16))
    pair.client.core._requests._sealer = sealer
    pair.client_events()
    seen: list[Request] = []

    def watch(frames: list[Buffer]) -> int:
        message, _ = wire.decode(frames)
        if isinstance(message, Request):
            seen.append(message)
        return 1

    pair.link.fault_up = watch
    submit(pair, TEXT)
    pair.link.carry()
    assert len(seen) == 1
    assert not isinstance(seen[0], TracedRequest)


def sdk(exporter: InMemorySpanExporter, clock: FakeClock) -> SdkSink:
    return SdkSink(
        SimpleSpanProcessor(exporter), service="headtail-edge", instance="edge-1", clock=clock
    )


def test_spans_reach_an_exporter_as_they_are() -> None:
    exporter, clock = InMemorySpanExporter(), FakeClock(50.0)
    sink = sdk(exporter, clock)
    child = PARENT.child(seeded(3).randbytes)
    sink.tell(Span(name="frame", context=PARENT, parent=None, begin_s=50.0, end_s=50.25))
    sink.tell(
        Span(
            name="wire",
            context=child,
            parent=PARENT,
            begin_s=50.1,
            end_s=50.05,
            attributes={"headtail.cut": "L7"},
            failed="busy",
        )
    )
    frame, way = exporter.get_finished_spans()
    assert isinstance(frame, ReadableSpan)
    assert (frame.name, frame.parent, frame.status.is_ok) == ("frame", None, True)
    assert frame.context is not None
    assert frame.context.trace_id == int.from_bytes(PARENT.trace_id)
    assert frame.start_time is not None
    assert frame.end_time is not None
    assert frame.end_time - frame.start_time == 250_000_000
    assert frame.resource.attributes["service.instance.id"] == "edge-1"
    assert way.parent is not None
    assert way.parent.span_id == int.from_bytes(PARENT.span_id)
    assert dict(way.attributes or {}) == {"headtail.cut": "L7"}
    assert (way.status.is_ok, way.status.description) == (False, "busy")
    assert way.start_time is not None
    assert way.start_time - frame.start_time == 100_000_000
    assert way.end_time == way.start_time
    sink.close()


def test_no_endpoint_is_no_tracing() -> None:
    assert open_sink(TracingConfig(), service="s", instance="i", clock=FakeClock()) is None


@pytest.mark.parametrize("endpoint", ["collector:4318", "grpc://a:1", "http://"])
def test_an_address_that_is_none_is_said(endpoint: str) -> None:
    with pytest.raises(BadCollectorError):
        otlp_sink(endpoint, service="s", instance="i", clock=FakeClock())


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> object:
        raise ImportError(name)

    monkeypatch.setattr("importlib.import_module", missing)
    with pytest.raises(TracingMissingError) as caught:
        otlp_sink("http://a:4318", service="s", instance="i", clock=FakeClock())
    assert "headtail[tracing]" in caught.value.advice
