"""Tail requests a second through a whole edge, against a bare ONNX Runtime loop.

The edge is a process of its own with the real detector's bundle; the clients, each with four
requests in flight as a device has, send one real frame's payload again and again. The bare loop
runs the same tail with as many threads as the edge has workers, at the batch size that the edge
came to: no socket, no decoding, no boxes. Both take turns on the same machine.
"""

import argparse
import statistics
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from rich.progress import Progress

from headtail.bench.mixed_cuts import compare
from headtail.bench.report import Report
from headtail.load.bare import bare_loop
from headtail.load.closed_loop import ClosedLoop
from headtail.load.device_dialogue import devices, port_of
from headtail.load.payload import real_payload
from headtail.load.served import Served
from headtail.local_edge import LocalEdge
from headtail.provision import ensure_bundle
from headtail_models.bundle import Bundle, open_bundle

_IN_FLIGHT: Final = 4
_CLIENTS: Final = (1, 4, 16)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--bundle", default="yolov3-tiny-coco", help="what is served")
    parser.add_argument("--cut", default="", help="the bundle's default when not given")
    parser.add_argument("--codec", default="", help="the bundle's default when not given")
    parser.add_argument(
        "--cuts",
        type=lambda words: tuple(words.split(",")),
        default=(),
        metavar="CUT,CUT",
        help="in place of all that: devices at these cuts at once, their batches mixed and not",
    )
    parser.add_argument("--turns", type=int, default=3, help="turns a contender (default 3)")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of a turn (default 3)")
    parser.add_argument("--workers", type=int, default=2, help="of the edge, and of the bare loop")


def run(options: argparse.Namespace) -> Report:
    path = ensure_bundle(options.bundle)
    bundle = open_bundle(path)
    if options.cuts:
        return _mixed(options, bundle)
    payload = real_payload(bundle, options.cut, options.codec)
    report = Report(
        "edge",
        {
            "bundle": bundle.name,
            "cut": payload.cut,
            "codec": payload.tensors[0].codec,
            "payload_bytes": payload.size_bytes,
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
            served: list[Served] = []
            bare: list[float] = []
            for _ in range(options.turns):
                with ClosedLoop(
                    port_of(edge.endpoint), devices(clients, payload), in_flight=_IN_FLIGHT
                ) as crowd:
                    crowd.run(0.2)
                    served.append(crowd.run(options.seconds))
                size = max(1, round(served[-1].batch or 1))
                bare.append(
                    bare_loop(
                        bundle,
                        payload,
                        batch=size,
                        workers=options.workers,
                        seconds=options.seconds,
                    ).rate
                )
                progress.advance(task)
            ratio = statistics.median(s.rate / b for s, b in zip(served, bare, strict=True))
            rate = statistics.median(s.rate for s in served)
            batch = statistics.median(s.batch or 1 for s in served)
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


def _mixed(options: argparse.Namespace, bundle: Bundle) -> Report:
    report = Report(
        "edge-mixed-cuts",
        {
            "bundle": bundle.name,
            "cuts": ",".join(options.cuts),
            "codec": options.codec or bundle.manifest.default_codec,
            "workers": options.workers,
            "threads_a_worker": 1,
            "in_flight_a_client": 1,
            "turns": options.turns,
            "seconds": options.seconds,
        },
    )
    compare(
        report,
        bundle,
        [real_payload(bundle, cut, options.codec) for cut in options.cuts],
        workers=options.workers,
        rounds=options.turns,
        seconds=options.seconds,
    )
    return report
