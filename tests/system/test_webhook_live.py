"""A webhook and a real web server that is away at first."""

import json
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from headtail_device.delivery import Finished
from headtail_device.ledger import Outcome
from headtail_device.record import FrameRecord
from headtail_device.sink import RemoteSink
from headtail_device.sink.http_post import HttpPost
from headtail_device.sink.line import FrameLines
from headtail_fabric.clock import MonotonicClock

pytestmark = pytest.mark.system


def test_lines_reach_a_server_that_fails_at_first() -> None:
    bodies: list[bytes] = []
    asked: list[tuple[str, str | None]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append((self.path, self.headers["Content-Type"]))
            body = self.rfile.read(int(self.headers["Content-Length"]))
            first = len(asked) == 1
            if not first:
                bodies.append(body)
            self.send_response(503 if first else 204)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        post = HttpPost(f"http://127.0.0.1:{server.server_port}/frames?key=secret")
        lines = FrameLines(started_at=0.0, started=datetime.now(UTC))
        hook = RemoteSink(post, lines=lines, clock=MonotonicClock(), limit=10, drain_s=30.0)
        for index in range(3):
            record = FrameRecord(index=index, origin="test", outcome=Outcome.DROPPED)
            hook.write(Finished(record=record, picture=None))
        hook.close()
        server.shutdown()
        serving.join()
    assert set(asked) == {("/frames?key=secret", "application/x-ndjson")}
    frames = [json.loads(line)["frame"] for line in b"".join(bodies).splitlines()]
    assert frames == [0, 1, 2]
