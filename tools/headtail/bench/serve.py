"""The same tail behind Headtail's edge and behind other servers, side by side.

One tail, one real frame's payload in the cut's 8-bit codec, closed-loop clients with one request
at a time each. Headtail, LitServe, FastAPI with ONNX Runtime and, where it is installed and asked
for, Ray Serve take turns on the same machine, clients included. Every rival is written as its own
documentation shows (`headtail/load/rivals`). The bare loop is ONNX Runtime alone, at the batch size
that Headtail's edge came to.

A ratio of rates is right where nothing else runs. The ratios of processor time (`*_cpu_ratio_*`,
server and clients together) say what it would be where these have the machine to themselves.
"""

import argparse
import base64
import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from rich.progress import Progress

from headtail.bench.report import Cell, Report
from headtail.load.bare import Bare, bare_loop
from headtail.load.closed_loop import ClosedLoop
from headtail.load.device_dialogue import devices, port_of
from headtail.load.http_dialogue import HttpDialogue
from headtail.load.payload import Payload, real_payload
from headtail.load.rival_process import RivalProcess
from headtail.load.rivals.tail import CODEC
from headtail.load.served import Served
from headtail.load.usage import usage
from headtail.local_edge import LocalEdge
from headtail.provision import ensure_bundle
from headtail_models.bundle import open_bundle

_CLIENTS: Final = (1, 8, 32)
_WARM_UP_S: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Turn:
    """One server under one crowd: what the clients saw, what its processes took, and the clients,
    for each request."""

    served: Served
    cpu_ms: float
    clients_ms: float
    memory_mb: float


_Measure = Callable[[int, float], _Turn]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Setting:
    """What all servers have in common."""

    bundle: Path
    payload: Payload
    workers: int
    max_batch: int
    batch_wait_s: float
    folder: Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--bundle", default="mobilenetv2-imagenet", help="whose tail is served")
    parser.add_argument("--cut", default="f16", help="behind which cut (default f16)")
    parser.add_argument("--turns", type=int, default=3, help="turns a server (default 3)")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of a turn (default 3)")
    parser.add_argument("--workers", type=int, default=2, help="of every server (default 2)")
    parser.add_argument(
        "--max-batch", type=int, default=8, help="of every server that batches (default 8)"
    )
    parser.add_argument(
        "--batch-wait-ms",
        type=float,
        default=1.0,
        help="how long LitServe and Ray Serve hold a batch back for more requests (default 1)",
    )
    parser.add_argument("--ray", action="store_true", help="Ray Serve too: 1 GB, a slow start")


def run(options: argparse.Namespace) -> Report:
    path = ensure_bundle(options.bundle)
    bundle = open_bundle(path)
    payload = real_payload(bundle, options.cut, CODEC)
    rivals = _rivals(with_ray=options.ray)
    report = Report(
        "serve",
        {
            "bundle": bundle.name,
            "cut": payload.cut,
            "tail_mmac": round(bundle.cut(payload.cut).tail.macs / 1e6, 1),
            "codec": CODEC,
            "payload_bytes": payload.size_bytes,
            "workers": options.workers,
            "threads_a_worker": 1,
            "max_batch": options.max_batch,
            "rivals_wait_ms": options.batch_wait_ms,
            "in_flight_a_client": 1,
            "curve": "off",
            "turns": options.turns,
            "seconds": options.seconds,
        },
    )
    turns: dict[tuple[str, int], list[_Turn]] = {}
    bare: dict[int, list[Bare]] = {clients: [] for clients in _CLIENTS}
    with TemporaryDirectory() as folder, Progress(transient=True) as progress:
        setting = _Setting(
            bundle=path,
            payload=payload,
            workers=options.workers,
            max_batch=options.max_batch,
            batch_wait_s=options.batch_wait_ms / 1000,
            folder=Path(folder),
        )
        task = progress.add_task("serve", total=options.turns * (1 + len(rivals)) * len(_CLIENTS))
        for _ in range(options.turns):
            for name in ("headtail", *rivals):
                with _server(name, setting) as measure:
                    for clients in _CLIENTS:
                        measure(clients, _WARM_UP_S)
                        turn = measure(clients, options.seconds)
                        turns.setdefault((name, clients), []).append(turn)
                        progress.advance(task)
            for clients in _CLIENTS:
                batch = turns["headtail", clients][-1].served.batch or 1
                bare[clients].append(
                    bare_loop(
                        bundle,
                        payload,
                        batch=max(1, round(batch)),
                        workers=options.workers,
                        seconds=options.seconds,
                    )
                )
    _tell(report, turns, bare, rivals)
    return report


def _tell(
    report: Report,
    turns: Mapping[tuple[str, int], list[_Turn]],
    bare: Mapping[int, list[Bare]],
    rivals: Mapping[str, str],
) -> None:
    names = {"headtail": "Headtail", **rivals}
    for clients in _CLIENTS:
        rows: list[list[Cell]] = []
        ours_ms = _all_ms(turns["headtail", clients])
        for name, title in names.items():
            runs = turns[name, clients]
            rate = statistics.median(turn.served.rate for turn in runs)
            report.figure(f"{name}_requests_per_s_{clients}", rate)
            batches = [turn.served.batch for turn in runs if turn.served.batch is not None]
            rows.append(
                [
                    title,
                    rate,
                    *(
                        statistics.median(getattr(turn.served, field) for turn in runs)
                        for field in ("p50_ms", "p95_ms", "p99_ms")
                    ),
                    statistics.median(turn.cpu_ms for turn in runs),
                    statistics.median(turn.clients_ms for turn in runs),
                    statistics.median(turn.memory_mb for turn in runs),
                    statistics.median(batches) if batches else None,
                ]
            )
            if name != "headtail":
                ratio = statistics.median(
                    ours.served.rate / theirs.served.rate
                    for ours, theirs in zip(turns["headtail", clients], runs, strict=True)
                )
                report.figure(f"{name}_ratio_{clients}", ratio)
                report.figure(f"{name}_cpu_ratio_{clients}", _all_ms(runs) / ours_ms)
        bare_ratio = statistics.median(
            turn.served.rate / loop.rate
            for turn, loop in zip(turns["headtail", clients], bare[clients], strict=True)
        )
        report.figure(f"bare_ratio_{clients}", bare_ratio)
        bare_ms = statistics.median(loop.cpu_ms for loop in bare[clients])
        report.figure(f"bare_cpu_ratio_{clients}", bare_ms / ours_ms)
        bare_rate = statistics.median(loop.rate for loop in bare[clients])
        rows.append(["bare loop", bare_rate, *[None] * 3, bare_ms, *[None] * 3])
        report.table(
            f"{clients} clients",
            [
                "server",
                "requests/s",
                "p50 ms",
                "p95 ms",
                "p99 ms",
                "CPU-ms a request",
                "clients' CPU-ms",
                "MB",
                "mean batch",
            ],
            rows,
        )
    most = _CLIENTS[-1]
    if "litserve" in rivals:
        report.target(f"litserve_ratio_{most}", report.figures[f"litserve_ratio_{most}"], ">=", 3.0)
    else:
        report.note("LitServe is not installed: pip install 'headtail[bench-serve]'")
    report.target(f"bare_ratio_{most}", report.figures[f"bare_ratio_{most}"], ">=", 0.9)


def _all_ms(turns: Sequence[_Turn]) -> float:
    """What a request costs this machine, server and client."""
    return statistics.median(turn.cpu_ms + turn.clients_ms for turn in turns)


def _rivals(*, with_ray: bool) -> dict[str, str]:
    """Those that are installed, and what they are called."""
    known = {"litserve": "LitServe", "fastapi": "FastAPI + ONNX Runtime"}
    if with_ray:
        known["ray"] = "Ray Serve"
    return {name: title for name, title in known.items() if find_spec(name) is not None}


def _server(name: str, setting: _Setting) -> AbstractContextManager[_Measure]:
    return _headtail(setting) if name == "headtail" else _rival(name, setting)


@contextmanager
def _headtail(setting: _Setting) -> Iterator[_Measure]:
    options = ["--workers", str(setting.workers), "--threads", "1"]
    options += ["--max-batch", str(setting.max_batch)]
    with LocalEdge(setting.bundle, log=setting.folder / "edge.log", options=options) as edge:

        def measure(clients: int, seconds: float) -> _Turn:
            with ClosedLoop(port_of(edge.endpoint), devices(clients, setting.payload)) as crowd:
                return _turn(edge.pid, crowd, seconds)

        yield measure


@contextmanager
def _rival(name: str, setting: _Setting) -> Iterator[_Measure]:
    options = ["--bundle", str(setting.bundle), "--cut", setting.payload.cut]
    options += ["--workers", str(setting.workers), "--max-batch", str(setting.max_batch)]
    options += ["--batch-wait-s", str(setting.batch_wait_s)]
    body, content_type = bytes(setting.payload.buffers[0]), "application/octet-stream"
    if name == "litserve":
        body = json.dumps({"tensor": base64.b64encode(body).decode()}).encode()
        content_type = "application/json"
    headers = {"Content-Type": content_type}
    path = "/" if name == "ray" else "/predict"
    with RivalProcess(
        f"{name}_server",
        ready_path="/" if name == "ray" else "/health",
        log=setting.folder / f"{name}.log",
        options=options,
    ) as process:

        def measure(clients: int, seconds: float) -> _Turn:
            dialogues = [
                HttpDialogue(path=path, body=body, headers=headers) for _ in range(clients)
            ]
            with ClosedLoop(process.port, dialogues) as crowd:
                return _turn(process.pid, crowd, seconds)

        yield measure


def _turn(pid: int, crowd: ClosedLoop, seconds: float) -> _Turn:
    before, began_s = usage(pid), time.process_time()
    served = crowd.run(seconds)
    after, ended_s = usage(pid), time.process_time()
    return _Turn(
        served=served,
        cpu_ms=1000 * (after.cpu_s - before.cpu_s) / served.requests,
        clients_ms=1000 * (ended_s - began_s) / served.requests,
        memory_mb=after.memory_mb,
    )
