"""The edge's part of traces: the requests that carry a traceparent."""

from contextlib import ExitStack

from headtail_edge.config import EdgeConfig
from headtail_fabric.clock import Clock
from headtail_fabric.peer.ports import ServerPort
from headtail_fabric.tracing.server import RequestTraces, TracedServerPort
from headtail_fabric.tracing.settings import open_sink, random_ids


def traced(port: ServerPort, config: EdgeConfig, clock: Clock, cleanup: ExitStack) -> ServerPort:
    """The port, with traces if they are wanted. Raises TracingMissingError, BadCollectorError."""
    sink = open_sink(config.tracing, service="headtail-edge", instance=config.name, clock=clock)
    if sink is None:
        return port
    cleanup.callback(sink.close)
    return TracedServerPort(port, RequestTraces(sink, clock=clock, random=random_ids))
