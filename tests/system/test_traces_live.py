"""A device, an edge and a tiny collector: one frame's spans of both form one trace."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from headtail_models.bundle.specimen import write_specimen
from processes import PATIENCE_S, Headtail, records, write_clip

pytestmark = pytest.mark.system

FRAMES = 20
ON_DEVICE = {"frame", "head", "encode", "wire"}
ON_EDGE = {"queue", "tail", "decode", "compute", "answer"}


@contextmanager
def collector() -> Iterator[tuple[str, list[tuple[str, Any]]]]:
    """An OTLP receiver; its address, and the spans it gets with their service's name."""
    spans: list[tuple[str, Any]] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            request = ExportTraceServiceRequest.FromString(body)
            assert self.path == "/v1/traces"
            for resource in request.resource_spans:
                named = {each.key: each.value.string_value for each in resource.resource.attributes}
                for scope in resource.scope_spans:
                    spans.extend((named["service.name"], span) for span in scope.spans)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Receiver) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", spans
        finally:
            server.shutdown()
            thread.join()


def run(bundle: Path, folder: Path, endpoint: str, *, sealed: bool = False) -> None:
    clip = write_clip(folder / "clip.mp4", frames=FRAMES)
    out = folder / "frames.jsonl"
    edge_config, device_config = folder / "edge.toml", folder / "device.toml"
    tracing = f'[tracing]\nendpoint = "{endpoint}"\n'
    edge_config.write_text(tracing)
    device_config.write_text(tracing)
    serve: list[str | Path] = ["--bind", "tcp://127.0.0.1:0", "--bundle", bundle]
    seal: list[str | Path] = []
    if sealed:
        with Headtail("keys", "seal", "edge-1", "--dir", folder) as keys:
            assert keys.process.wait(PATIENCE_S) == 0
        serve += ["--seal-key", folder / "edge-1.seal"]
        seal = ["--seal-to", folder / "edge-1.seal.pub"]
    with Headtail("edge", "serve", *serve, "--config", edge_config) as edge:
        words = ("--bundle", bundle, "--source", clip, "--json", out, "--config", device_config)
        how = ("--edge", edge.ready()["endpoint"], *seal)
        with Headtail("device", "run", *words, *how) as device:
            assert device.process.wait(PATIENCE_S) == 0, device.errors()
        assert edge.terminate() == 0
    assert [record["outcome"] for record in records(out)] == ["edge"] * FRAMES


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_specimen(tmp_path_factory.mktemp("bundles") / "specimen")


def test_the_spans_of_both_sides_form_one_trace_a_frame(bundle: Path, tmp_path: Path) -> None:
    with collector() as (endpoint, spans):
        run(bundle, tmp_path, endpoint)
    traces: dict[bytes, list[tuple[str, Any]]] = {}
    for service, span in spans:
        traces.setdefault(span.trace_id, []).append((service, span))
    assert len(traces) == FRAMES
    for trace in traces.values():
        by_name = {span.name: (service, span) for service, span in trace}
        assert set(by_name) == ON_DEVICE | ON_EDGE
        for name, (service, span) in by_name.items():
            assert service == ("headtail-device" if name in ON_DEVICE else "headtail-edge")
            assert span.start_time_unix_nano <= span.end_time_unix_nano
        wire, root = by_name["wire"][1], by_name["frame"][1]
        assert root.parent_span_id == b""
        assert wire.parent_span_id == root.span_id
        for name in ("queue", "tail", "answer"):
            assert by_name[name][1].parent_span_id == wire.span_id
        lasted = root.end_time_unix_nano - root.start_time_unix_nano
        assert wire.end_time_unix_nano - wire.start_time_unix_nano <= lasted


def test_sealed_frames_are_traced_on_the_device_alone(bundle: Path, tmp_path: Path) -> None:
    with collector() as (endpoint, spans):
        run(bundle, tmp_path, endpoint, sealed=True)
    assert {service for service, _ in spans} == {"headtail-device"}
    assert {span.name for _, span in spans} == ON_DEVICE
