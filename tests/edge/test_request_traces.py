from contextlib import ExitStack

import pytest

from headtail_edge import request_traces
from headtail_edge.config import EdgeConfig
from headtail_edge.request_traces import traced
from headtail_fabric.clock import FakeClock
from headtail_fabric.peer.memory import MemoryLink, MemoryServer
from headtail_fabric.tracing import Span
from headtail_fabric.tracing.server import TracedServerPort
from headtail_fabric.tracing.settings import TracingConfig


class Sink:
    closed = False

    def tell(self, span: Span) -> None:
        raise AssertionError(span)

    def close(self) -> None:
        self.closed = True


def test_without_a_collector_the_port_is_left_alone() -> None:
    clock = FakeClock()
    port = MemoryServer(MemoryLink(clock))
    with ExitStack() as cleanup:
        assert traced(port, EdgeConfig(), clock, cleanup) is port


def test_with_one_the_port_is_watched_and_the_rest_is_sent_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, sink = FakeClock(), Sink()
    opened: list[dict[str, object]] = []

    def open_sink(settings: TracingConfig, **how: object) -> Sink:
        opened.append({"endpoint": settings.endpoint, **how})
        return sink

    monkeypatch.setattr(request_traces, "open_sink", open_sink)
    port = MemoryServer(MemoryLink(clock))
    config = EdgeConfig(name="hall", tracing=TracingConfig(endpoint="http://a:4318"))
    with ExitStack() as cleanup:
        assert isinstance(traced(port, config, clock, cleanup), TracedServerPort)
    assert sink.closed
    assert opened == [
        {
            "endpoint": "http://a:4318",
            "service": "headtail-edge",
            "instance": "hall",
            "clock": clock,
        }
    ]
