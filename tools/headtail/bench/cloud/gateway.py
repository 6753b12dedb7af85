"""(d) What the gateway adds to the engine: a tail over HTTP against the same tail called in Python,
and requests per second against a bare Starlette application that runs it.

A small tail, so that what is around it shows. The servers are processes of their own; each client
keeps its connection.
"""

import argparse
import http.client
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final
from urllib.parse import urlsplit

import msgspec
import numpy as np

from headtail.bench.report import Report
from headtail_cloud.core.task import TailItem
from headtail_cloud.engines.loading import load_tails
from headtail_cloud.engines.served_tail import ServedTail, TailInput
from headtail_cloud.engines.tail import TailEngine
from headtail_cloud.open_inference.message import HEADER_LENGTH, encode_request
from headtail_models.bundle.specimen import write_specimen

_ASKS: Final = 300
_CLIENTS: Final = 8
_SECONDS: Final = 3.0

Ask = Callable[[http.client.HTTPConnection], None]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None of its own."""


def measure(report: Report, options: argparse.Namespace) -> None:
    with TemporaryDirectory() as folder:
        path = write_specimen(Path(folder) / "specimen")
        (tail,) = load_tails([f"{path}:early"])
        tensor = np.random.default_rng(0).random((1, *tail.input.shape), dtype=np.float32)
        body, length = encode_request(tail.input.name, tensor)
        headers = {HEADER_LENGTH: str(length), "Content-Type": "application/octet-stream"}
        ours = _asker(f"/v2/models/{tail.name}/infer", body, headers)
        bare = _asker("/", tensor.tobytes(), {})
        engine_ms = _engine_ms(tail, tensor.tobytes(), tensor.shape)
        turns: list[tuple[float, float, float, float]] = []
        serve = ("cloud", "serve", "--port", "0", "--threads", "1", "--model", f"{path}:early")
        with (
            _server([sys.executable, "-m", "headtail", *serve]) as gateway,
            _server([sys.executable, "-c", _BARE, f"{path}:early"]) as starlette,
        ):
            for _ in range(options.turns):
                turns.append(
                    (
                        _latency_ms(gateway, ours),
                        _latency_ms(starlette, bare),
                        _rate(gateway, ours),
                        _rate(starlette, bare),
                    )
                )
    ours_ms, bare_ms, ours_rate, bare_rate = (median(side) for side in zip(*turns, strict=True))
    report.table(
        "One tail over HTTP",
        ["", "p50 ms", f"requests/s, {_CLIENTS} clients"],
        [
            ["engine alone", engine_ms, None],
            ["Headtail's gateway", ours_ms, ours_rate],
            ["bare Starlette", bare_ms, bare_rate],
        ],
    )
    report.target("gateway_overhead_p50_ms", ours_ms - engine_ms, "<=", 1.0)
    report.figure("gateway_rate_vs_starlette", ours_rate / bare_rate)


def _engine_ms(tail: ServedTail, payload: bytes, shape: tuple[int, ...]) -> float:
    engine = TailEngine([tail], max_batch=8)
    item = TailItem(
        request_id="1", segment=tail.segment, input=TailInput(payload=payload, shape=shape)
    )
    return _middle_ms(lambda: engine.step([item]))


def _asker(path: str, body: bytes, headers: dict[str, str]) -> Ask:
    def ask(connection: http.client.HTTPConnection) -> None:
        connection.request("POST", path, body, headers)
        with connection.getresponse() as reply:
            answer = reply.read()
            if reply.status != 200:
                raise RuntimeError(f"{reply.status}: {answer[:200]!r}")

    return ask


def _latency_ms(address: str, ask: Ask) -> float:
    connection = http.client.HTTPConnection(address, timeout=60)
    try:
        return _middle_ms(lambda: ask(connection))
    finally:
        connection.close()


def _middle_ms(work: Callable[[], object]) -> float:
    times: list[float] = []
    for _ in range(_ASKS):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return 1000 * median(times[_ASKS // 10 :])


def _rate(address: str, ask: Ask) -> float:
    counts = [0] * _CLIENTS
    until = time.perf_counter() + _SECONDS

    def client(number: int) -> None:
        connection = http.client.HTTPConnection(address, timeout=60)
        while time.perf_counter() < until:
            ask(connection)
            counts[number] += 1
        connection.close()

    threads = [threading.Thread(target=client, args=(number,)) for number in range(_CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / _SECONDS


@contextmanager
def _server(command: list[str]) -> Iterator[str]:
    """Its address, when it has said that it is ready."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)  # noqa: S603
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        yield urlsplit(msgspec.json.decode(line)["url"]).netloc
    finally:
        process.terminate()
        process.communicate()


_BARE: Final = """
import json, socket, sys, threading
import numpy as np, uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.routing import Route
from headtail_cloud.engines.loading import load_tails

(tail,) = load_tails([sys.argv[1]])

def compute(body):
    tensor = np.frombuffer(body, np.float32).reshape(1, *tail.input.shape)
    (answer,) = tail.run([tensor], [()])
    return answer[tail.answer.name].tobytes()

async def infer(request):
    return Response(await run_in_threadpool(compute, await request.body()))

bound = socket.create_server(("127.0.0.1", 0))
print(json.dumps({"url": f"http://127.0.0.1:{bound.getsockname()[1]}"}), flush=True)
app = Starlette(routes=[Route("/", infer, methods=["POST"])])
config = uvicorn.Config(app, http="h11", log_config=None, access_log=False)
uvicorn.Server(config).run(sockets=[bound])
"""
