"""(d) What the gateway adds to the engine: a tail over HTTP against the same tail called in Python,
and requests per second against a bare Starlette application that runs it, and LitServe.

A small tail, so that what is around it shows. The servers are processes of their own, and take
turns; clients keep their connections, and are one process with a bare socket each.
"""

import argparse
import base64
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final
from urllib.parse import urlsplit

import msgspec
import numpy as np

from headtail.bench.report import Cell, Report
from headtail.load.closed_loop import ClosedLoop
from headtail.load.http_dialogue import HttpDialogue
from headtail.load.rival_process import RivalProcess
from headtail.load.rivals.tail import CODEC
from headtail_cloud.core.task import TailItem
from headtail_cloud.engines.loading import load_tails
from headtail_cloud.engines.served_tail import ServedTail, TailInput
from headtail_cloud.engines.tail import TailEngine
from headtail_cloud.open_inference.message import HEADER_LENGTH, encode_request
from headtail_fabric.codec.base import Array
from headtail_models.bundle import open_bundle
from headtail_models.bundle.specimen import write_specimen

_CUT: Final = "early"
_CLIENTS: Final = 8
_WARM_UP_S: Final = 0.5
_SECONDS: Final = 2.0
_CALLS: Final = 300

_Seen = tuple[float, float]
"""One client's median latency, in milliseconds; requests a second of several clients."""
_Look = Callable[[], _Seen]
_Dialogue = Callable[[], HttpDialogue]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None of its own."""


def measure(report: Report, options: argparse.Namespace) -> None:
    with TemporaryDirectory() as name, ExitStack() as servers:
        folder = Path(name)
        path = write_specimen(folder / "specimen")
        (tail,) = load_tails([f"{path}:{_CUT}"])
        tensor = np.random.default_rng(0).random((1, *tail.input.shape), dtype=np.float32)
        engine_ms = _engine_ms(tail, tensor)
        looks = {
            "headtail": servers.enter_context(_headtail(path, tail, tensor)),
            "starlette": servers.enter_context(_starlette(path, tensor)),
        }
        if find_spec("litserve") is not None:
            looks["litserve"] = servers.enter_context(_litserve(path, tensor, folder))
        else:
            report.note("LitServe is not installed: pip install 'headtail[bench-serve]'")
        turns = [{who: look() for who, look in looks.items()} for _ in range(options.turns)]
    rows: list[list[Cell]] = [["engine alone", engine_ms, None]]
    for who in looks:
        latency_ms, rate = (median(turn[who][at] for turn in turns) for at in (0, 1))
        rows.append([who, latency_ms, rate])
        if who == "headtail":
            report.target("gateway_overhead_p50_ms", latency_ms - engine_ms, "<=", 1.0)
            continue
        ratio = median(turn["headtail"][1] / turn[who][1] for turn in turns)
        report.figure(f"gateway_rate_vs_{who}", ratio)
        report.figure(f"{who}_overhead_p50_ms", latency_ms - engine_ms)
    report.table("One tail over HTTP", ["", "p50 ms", f"requests/s, {_CLIENTS} clients"], rows)


def _engine_ms(tail: ServedTail, tensor: Array) -> float:
    engine = TailEngine([tail], max_batch=8)
    given = TailInput(payload=tensor.tobytes(), shape=tensor.shape)
    item = TailItem(request_id="1", segment=tail.segment, input=given)
    times: list[float] = []
    for _ in range(_CALLS):
        started = time.perf_counter()
        engine.step([item])
        times.append(time.perf_counter() - started)
    return 1000 * median(times)


@contextmanager
def _headtail(path: Path, tail: ServedTail, tensor: Array) -> Iterator[_Look]:
    body, length = encode_request(tail.input.name, tensor)
    dialogue = partial(
        HttpDialogue,
        path=f"/v2/models/{tail.name}/infer",
        body=body,
        headers={HEADER_LENGTH: str(length)},
    )
    serve = ("cloud", "serve", "--port", "0", "--threads", "1", "--model", f"{path}:{_CUT}")
    with _server([sys.executable, "-m", "headtail", *serve]) as port:
        yield lambda: _seen(port, dialogue)


@contextmanager
def _starlette(path: Path, tensor: Array) -> Iterator[_Look]:
    dialogue = partial(HttpDialogue, path="/", body=tensor.tobytes(), headers={})
    with _server([sys.executable, "-c", _BARE, f"{path}:{_CUT}"]) as port:
        yield lambda: _seen(port, dialogue)


@contextmanager
def _litserve(path: Path, tensor: Array, folder: Path) -> Iterator[_Look]:
    """As its examples have it: base64 in JSON; here of 8 bits, a quarter of what the others get."""
    packed = bytes(open_bundle(path).codecs(_CUT).new(CODEC).encode(tensor))
    body = msgspec.json.encode({"tensor": base64.b64encode(packed).decode()})
    headers = {"Content-Type": "application/json"}
    dialogue = partial(HttpDialogue, path="/predict", body=body, headers=headers)
    options = ["--bundle", str(path), "--cut", _CUT, "--workers", "1", "--max-batch", "8"]
    log = folder / "litserve.log"
    with RivalProcess("litserve_server", ready_path="/health", log=log, options=options) as rival:
        yield lambda: _seen(rival.port, dialogue)


def _seen(port: int, dialogue: _Dialogue) -> _Seen:
    with ClosedLoop(port, [dialogue()]) as one:
        one.run(_WARM_UP_S)
        latency_ms = one.run(_SECONDS).p50_ms
    with ClosedLoop(port, [dialogue() for _ in range(_CLIENTS)]) as crowd:
        crowd.run(_WARM_UP_S)
        return latency_ms, crowd.run(_SECONDS).rate


@contextmanager
def _server(command: list[str]) -> Iterator[int]:
    """Its port, when it has said that it is ready."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)  # noqa: S603
    try:
        assert process.stdout is not None
        port = urlsplit(msgspec.json.decode(process.stdout.readline())["url"]).port
        assert port is not None
        yield port
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
config = uvicorn.Config(app, log_config=None, access_log=False)
uvicorn.Server(config).run(sockets=[bound])
"""
