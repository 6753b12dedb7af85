"""Tail requests a second through a whole edge, against a bare ONNX Runtime loop.

The edge is a process of its own with the real detector's bundle; the clients, each with four
requests in flight as a device has, send one real frame's payload again and again. The bare loop
runs the same tail with as many threads as the edge has workers, at the batch size that the edge
came to: no socket, no decoding, no boxes. Both take turns on the same machine.
"""

import argparse
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import cv2
import numpy as np
from rich.progress import Progress

from headtail.bench.report import Report
from headtail.local_edge import LocalEdge
from headtail.provision import ensure_bundle, ensure_clip
from headtail_device.head import HeadRunner
from headtail_device.placement import remote_for
from headtail_fabric.clock import MonotonicClock
from headtail_fabric.codec.base import Array
from headtail_fabric.peer.events import Answered, Connected
from headtail_fabric.peer.zmq_client import ZmqClient
from headtail_fabric.wire import Buffer, TensorInfo
from headtail_models.bundle import Bundle, open_bundle

_IN_FLIGHT: Final = 4
_CLIENTS: Final = (1, 4, 16)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Load:
    """What every client sends."""

    digest: bytes
    cut: str
    tensors: tuple[TensorInfo, ...]
    payloads: tuple[Buffer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Served:
    rate: float
    batch: float
    p50_ms: float
    p99_ms: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--bundle", default="yolov3-tiny-coco", help="what is served")
    parser.add_argument("--cut", default="", help="the bundle's default when not given")
    parser.add_argument("--codec", default="", help="the bundle's default when not given")
    parser.add_argument("--turns", type=int, default=3, help="turns a contender (default 3)")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of a turn (default 3)")
    parser.add_argument("--workers", type=int, default=2, help="of the edge, and of the bare loop")


def run(options: argparse.Namespace) -> Report:
    path = ensure_bundle(options.bundle)
    bundle = open_bundle(path)
    load = _real_load(bundle, options.cut, options.codec)
    report = Report(
        "edge",
        {
            "bundle": bundle.name,
            "cut": load.cut,
            "codec": load.tensors[0].codec,
            "payload_bytes": sum(memoryview(p).nbytes for p in load.payloads),
            "workers": options.workers,
            "threads_a_worker": 1,
            "in_flight_a_client": _IN_FLIGHT,
            "curve": "off",
            "turns": options.turns,
            "seconds": options.seconds,
        },
    )
    rows: list[list[str | float]] = []
    ratios: list[float] = []
    with (
        TemporaryDirectory() as folder,
        LocalEdge(
            path,
            log=Path(folder) / "edge.log",
            options=("--workers", str(options.workers), "--threads", "1"),
        ) as edge,
        Progress(transient=True) as progress,
    ):
        task = progress.add_task("edge", total=len(_CLIENTS) * options.turns)
        for clients in _CLIENTS:
            served: list[_Served] = []
            bare: list[float] = []
            for _ in range(options.turns):
                with _Clients(edge.endpoint, clients, load) as crowd:
                    crowd.run(0.2)
                    served.append(crowd.run(options.seconds))
                size = max(1, round(served[-1].batch))
                bare.append(_bare_rate(bundle, load, size, options.workers, options.seconds))
                progress.advance(task)
            ratio = statistics.median(s.rate / b for s, b in zip(served, bare, strict=True))
            rate = statistics.median(s.rate for s in served)
            batch = statistics.median(s.batch for s in served)
            p50 = statistics.median(s.p50_ms for s in served)
            p99 = statistics.median(s.p99_ms for s in served)
            ratios.append(report.figure(f"edge_ratio_{clients}_clients", ratio))
            report.figure(f"requests_per_s_{clients}_clients", rate)
            report.figure(f"mean_batch_{clients}_clients", batch)
            report.figure(f"p50_ms_{clients}_clients", p50)
            report.figure(f"p99_ms_{clients}_clients", p99)
            rows.append([str(clients), rate, statistics.median(bare), ratio, batch, p50, p99])
    columns = ["clients", "requests/s", "bare loop/s", "ratio", "mean batch", "p50 ms", "p99 ms"]
    report.table("Tail requests answered a second", columns, rows)
    report.note("The bare loop computes the tail alone: it decodes nothing and finds no boxes.")
    report.target("edge_ratio_batch", min(ratios), ">=", 0.85)
    return report


def _real_load(bundle: Bundle, cut: str, codec: str) -> _Load:
    way = remote_for(bundle.manifest, cut=cut, codec=codec, quality=75)
    head = HeadRunner(bundle, threads=1, clock=MonotonicClock())
    encoded = head.encode(_middle_frame(ensure_clip()), way)
    return _Load(
        digest=bundle.digest, cut=way.cut, tensors=encoded.tensors, payloads=encoded.payloads
    )


def _middle_frame(clip: Path) -> Array:
    capture = cv2.VideoCapture(str(clip))
    try:
        capture.set(cv2.CAP_PROP_POS_FRAMES, capture.get(cv2.CAP_PROP_FRAME_COUNT) // 2)
        done, frame = capture.read()
    finally:
        capture.release()
    if not done:
        raise RuntimeError(f"the sample clip {clip} can't be read")
    return frame


class _Clients:
    """Some devices, each a connection with a thread; they only wait, so they cost little."""

    def __init__(self, endpoint: str, count: int, load: _Load) -> None:
        self._load = load
        self._opened = ExitStack()
        self._ports = [
            self._opened.enter_context(ZmqClient(endpoint, name=f"bench-{number}"))
            for number in range(count)
        ]

    def __enter__(self) -> "_Clients":
        for port in self._ports:
            event = port.poll(10)
            if not isinstance(event, Connected):
                raise RuntimeError(f"no connection to the benchmark's own edge: {event}")
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def run(self, seconds: float) -> _Served:
        """Ask for `seconds`, then wait for what is still out."""
        until = time.monotonic() + seconds
        askers = [_Asker(port, self._load, until) for port in self._ports]
        with ThreadPoolExecutor(len(askers)) as pool, _timed() as timer:
            # A client that is done goes on polling until all are: it still owes heartbeats.
            running = [pool.submit(asker.run, askers) for asker in askers]
            for one in running:
                one.result()
        answers = [answer for asker in askers for answer in asker.answers]
        latencies = sorted(latency for latency, _ in answers)
        return _Served(
            rate=len(answers) / timer.seconds,
            batch=statistics.mean(batch for _, batch in answers),
            p50_ms=1000 * latencies[len(latencies) // 2],
            p99_ms=1000 * latencies[int(len(latencies) * 0.99)],
        )


class _Asker:
    """One client's requests until a point in time; `answers` are latencies (s) and batch sizes."""

    def __init__(self, port: ZmqClient, load: _Load, until: float) -> None:
        self._port = port
        self._load = load
        self._until = until
        self._submitted: dict[int, float] = {}
        self.answers: list[tuple[float, int]] = []
        self.done = False

    def run(self, all_of_them: Sequence["_Asker"]) -> None:
        try:
            while not all(asker.done for asker in all_of_them):
                self._turn()
        finally:
            self.done = True

    def _turn(self) -> None:
        while len(self._submitted) < _IN_FLIGHT and time.monotonic() < self._until:
            request_id = self._port.submit(
                bundle=self._load.digest,
                cut=self._load.cut,
                tensors=self._load.tensors,
                payloads=self._load.payloads,
                deadline_s=60.0,
            )
            self._submitted[request_id] = time.monotonic()
        event = self._port.poll(0.1)
        if isinstance(event, Answered):
            latency = time.monotonic() - self._submitted.pop(event.id)
            self.answers.append((latency, event.hints.batch))
        elif event is not None:
            raise RuntimeError(f"an answer was expected, came: {event}")
        self.done = not self._submitted and time.monotonic() >= self._until


def _bare_rate(bundle: Bundle, load: _Load, batch: int, workers: int, seconds: float) -> float:
    """Requests a second of ONNX Runtime alone, `workers` threads with a session each."""
    cut = bundle.cut(load.cut)
    stages = [bundle.open_stage(cut.tail, threads=1) for _ in range(workers)]
    quantiser = bundle.quantiser(load.cut, load.tensors[0].codec.partition("+")[0])
    tensor = np.zeros((batch, *cut.tensor.shape), dtype=np.float32) + quantiser.low.reshape(
        1, -1, 1, 1
    )
    done = [0] * workers
    for stage in stages:
        stage.run({cut.tensor.name: tensor})
    until = time.monotonic() + seconds

    def work(number: int) -> None:
        stage = stages[number]
        while time.monotonic() < until:
            stage.run({cut.tensor.name: tensor})
            done[number] += batch

    threads = [threading.Thread(target=work, args=(number,)) for number in range(workers)]
    with _timed() as timer:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return sum(done) / timer.seconds


class _Timer:
    seconds = 0.0


@contextmanager
def _timed() -> Iterator[_Timer]:
    timer, began_at = _Timer(), time.perf_counter()
    yield timer
    timer.seconds = time.perf_counter() - began_at
