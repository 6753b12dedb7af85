"""Messages and megabytes a second through DEALER/ROUTER, against plain pyzmq doing the same.

A request carries one tensor, its answer none; 16 are in flight. Both contenders run in two
processes over TCP loopback, send without copying, use the same socket options and frames of the
same sizes; they take turns, and the ratio is the median over the turns.
"""

import argparse
import multiprocessing
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import zmq
from rich.progress import Progress

from headtail.bench.report import Report
from headtail_fabric import allowlist, keys, wire
from headtail_fabric.allowlist import AllowList, Member, Role
from headtail_fabric.keys import KeyPair
from headtail_fabric.peer import options as socket_options
from headtail_fabric.peer.events import Answered, Connected, RequestArrived
from headtail_fabric.peer.zmq_client import ZmqClient
from headtail_fabric.peer.zmq_server import ZmqServer
from headtail_fabric.wire import DType, Hints, TensorInfo, Timings
from headtail_fabric.zap import Authenticator, client_curve, server_curve

_DIGEST: Final = bytes(32)
_KIB: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class _Keys:
    """Key pairs of both ends, and the allow-list that enrols the client."""

    server: KeyPair
    client: KeyPair
    allow_file: Path


_Security = _Keys | None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--turns", type=int, default=5, help="turns a contender (default 5)")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of a turn (default 1)")
    parser.add_argument("--window", type=int, default=16, help="requests in flight (default 16)")


def run(options: argparse.Namespace) -> Report:
    sizes = {"1k": _KIB, "64k": 64 * _KIB, "1m": 1024 * _KIB}
    report = Report(
        "wire",
        {
            "window": options.window,
            "turns": options.turns,
            "seconds": options.seconds,
            "transport": "tcp loopback, two processes",
            "heartbeats": "on",
        },
    )
    rows: list[list[str | float]] = []
    with TemporaryDirectory() as name, Progress(transient=True) as progress:
        key_pairs = _make_keys(Path(name))
        task = progress.add_task("wire", total=2 * len(sizes))
        for curve in (False, True):
            security = key_pairs if curve else None
            for label, size in sizes.items():
                ours, plain = _contest(security, size, options)
                ratio = statistics.median(a / b for a, b in zip(ours, plain, strict=True))
                suffix = f"{label}{'_curve' if curve else ''}"
                report.figure(f"messages_per_s_{suffix}", statistics.median(ours))
                report.figure(f"pyzmq_messages_per_s_{suffix}", statistics.median(plain))
                report.figure(f"mbytes_per_s_{suffix}", statistics.median(ours) * size / 1e6)
                if suffix == "64k":
                    report.target("wire_ratio_64k", ratio, ">=", 0.8)
                else:
                    report.figure(f"wire_ratio_{suffix}", ratio)
                rows.append(
                    [
                        f"{label} {'CURVE' if curve else 'plain'}",
                        statistics.median(ours),
                        statistics.median(plain),
                        statistics.median(ours) * size / 1e6,
                        ratio,
                    ]
                )
                progress.advance(task)
    columns = ["tensor", "messages/s", "pyzmq messages/s", "MB/s", "ratio"]
    report.table("Requests answered a second", columns, rows)
    return report


def _make_keys(folder: Path) -> _Keys:
    server, client = keys.generate("server"), keys.generate("client")
    path = folder / "allow.toml"
    member = Member(name="client", public=client.public, role=Role.DEVICE, added=date(2026, 1, 1))
    allowlist.enrol(path, member)
    return _Keys(server=server, client=client, allow_file=path)


def _contest(
    security: _Security, size: int, options: argparse.Namespace
) -> tuple[list[float], list[float]]:
    ours: list[float] = []
    plain: list[float] = []
    with _Peer(_serve_headtail, security) as one, _Peer(_serve_pyzmq, security) as other:
        drive = _HeadtailDriver(one.endpoint, security, size)
        rival = _PyzmqDriver(other.endpoint, security, size)
        try:
            for contender in (drive, rival):
                contender.run(options.window, 0.2)
            for _ in range(options.turns):
                ours.append(drive.run(options.window, options.seconds))
                plain.append(rival.run(options.window, options.seconds))
        finally:
            drive.close()
            rival.close()
    return ours, plain


class _Peer:
    """A server in a process of its own."""

    def __init__(self, serve: Callable[[Connection, _Security], None], security: _Security) -> None:
        context = multiprocessing.get_context("spawn")
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, security), daemon=True)

    def __enter__(self) -> "_Peer":
        self._process.start()
        self.endpoint = str(self._ours.recv())
        return self

    def __exit__(self, *_: object) -> None:
        self._ours.send("stop")
        self._process.join(10)


def _serve_headtail(pipe: Connection, security: _Security) -> None:
    with ZmqServer(
        "tcp://127.0.0.1:0",
        name="bench",
        window=64,
        keys=None if security is None else security.server,
        allow_list=None if security is None else AllowList(security.allow_file),
    ) as server:
        pipe.send(server.endpoint)
        while not pipe.poll():
            # Polling the pipe costs a system call: not for every message.
            for _ in range(256):
                event = server.poll(0.05)
                if event is None:
                    break
                if isinstance(event, RequestArrived):
                    server.respond(
                        event.session,
                        event.request.id,
                        tensors=(),
                        payloads=(),
                        timings=Timings(),
                        hints=Hints(),
                    )


def _serve_pyzmq(pipe: Connection, security: _Security) -> None:
    context = zmq.Context()
    socket: zmq.Socket[bytes] = context.socket(zmq.ROUTER)
    socket_options.server(socket)
    authenticator = None
    if security is not None:
        authenticator = Authenticator(context, AllowList(security.allow_file))
        authenticator.start()
        server_curve(socket, security.server)
    pipe.send(socket_options.bind(socket, "tcp://127.0.0.1:0"))
    answer = bytes(len(_answer_frame()))
    while not pipe.poll():
        for _ in range(256):
            if not socket.poll(50):
                break
            frames = socket.recv_multipart(copy=False)
            socket.send_multipart([frames[0], answer], copy=False)
    socket.close()
    if authenticator is not None:
        authenticator.stop()
    context.term()


class _HeadtailDriver:
    def __init__(self, endpoint: str, security: _Security, size: int) -> None:
        self._client = ZmqClient(
            endpoint,
            name="bench",
            keys=None if security is None else security.client,
            server_key=None if security is None else security.server.public,
        )
        self._info = TensorInfo(name="t", dtype=DType.UINT8, shape=(size,), codec="raw")
        self._payload = bytes(size)
        event = self._client.poll(10)
        if not isinstance(event, Connected):
            raise RuntimeError(f"no connection to the benchmark's own server: {event}")

    def run(self, window: int, seconds: float) -> float:
        """Requests answered a second."""
        done, flying, started_at = 0, 0, time.perf_counter()
        until = started_at + seconds
        while time.perf_counter() < until:
            while flying < window:
                self._client.submit(
                    bundle=_DIGEST,
                    cut="bench",
                    tensors=(self._info,),
                    payloads=(self._payload,),
                    deadline_s=60.0,
                )
                flying += 1
            self._take_answer()
            done, flying = done + 1, flying - 1
        rate = done / (time.perf_counter() - started_at)
        for _ in range(flying):
            self._take_answer()
        return rate

    def _take_answer(self) -> None:
        event = self._client.poll(10)
        if not isinstance(event, Answered):
            raise RuntimeError(f"an answer was expected, came: {event}")

    def close(self) -> None:
        self._client.close()


class _PyzmqDriver:
    def __init__(self, endpoint: str, security: _Security, size: int) -> None:
        self._context = zmq.Context()
        self._socket: zmq.Socket[bytes] = self._context.socket(zmq.DEALER)
        socket_options.client(self._socket)
        if security is not None:
            client_curve(self._socket, security.client, security.server.public)
        socket_options.connect(self._socket, endpoint)
        self._frames = [bytes(len(_request_frame(size))), bytes(size)]

    def run(self, window: int, seconds: float) -> float:
        """Requests answered a second."""
        done, flying, started_at = 0, 0, time.perf_counter()
        until = started_at + seconds
        while time.perf_counter() < until:
            while flying < window:
                self._socket.send_multipart(self._frames, copy=False)
                flying += 1
            self._socket.recv_multipart(copy=False)
            done, flying = done + 1, flying - 1
        rate = done / (time.perf_counter() - started_at)
        while flying:
            self._socket.recv_multipart()
            flying -= 1
        return rate

    def close(self) -> None:
        self._socket.close(linger=0)
        self._context.term()


def _request_frame(size: int) -> wire.Buffer:
    info = TensorInfo(name="t", dtype=DType.UINT8, shape=(size,), codec="raw")
    request = wire.Request(
        id=1000, bundle=_DIGEST, cut="bench", remaining_ms=60_000, attempt=1, tensors=(info,)
    )
    return wire.encode(request, [b""])[0]


def _answer_frame() -> wire.Buffer:
    result = wire.Result(id=1000, tensors=(), timings=Timings(resident_us=100), hints=Hints())
    return wire.encode(result)[0]
