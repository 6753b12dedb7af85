"""An edge whose devices cut one bundle in different places: batches mixed, and not.

An edge of its own for each setting of `mixed_cuts`; they take turns on the same machine, with the
same clients, as many at each cut.
"""

import statistics
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, get_args

from rich.progress import Progress

from headtail.bench.report import Cell, Report
from headtail.load.closed_loop import ClosedLoop
from headtail.load.device_dialogue import DeviceDialogue, port_of
from headtail.load.payload import Payload
from headtail.load.served import Served
from headtail.load.usage import usage
from headtail.local_edge import LocalEdge
from headtail_edge.mixing import MixedCuts
from headtail_models.bundle import Bundle

_CLIENTS: Final = (1, 2, 4)
"""At each cut, each with one request at a time."""
_SETTINGS: Final[tuple[MixedCuts, ...]] = get_args(MixedCuts)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Turn:
    served: Served
    cpu_ms: float


def compare(
    report: Report,
    bundle: Bundle,
    payloads: Sequence[Payload],
    *,
    workers: int,
    rounds: int,
    seconds: float,
) -> None:
    """Add to `report` what became of requests with all `payloads`, each at a cut of its own, at
    once; `seconds` is the length of a turn."""
    turns: dict[tuple[int, MixedCuts], list[_Turn]] = {}
    with (
        TemporaryDirectory() as folder,
        ExitStack() as running,
        Progress(transient=True) as progress,
    ):
        edges = {
            setting: running.enter_context(_edge(bundle, setting, workers, Path(folder)))
            for setting in _SETTINGS
        }
        task = progress.add_task("mixed cuts", total=len(_CLIENTS) * rounds)
        for clients in _CLIENTS:
            for _ in range(rounds):
                for setting, edge in edges.items():
                    turn = _turn(edge, clients, payloads, seconds)
                    turns.setdefault((clients, setting), []).append(turn)
                progress.advance(task)
    rows: list[list[Cell]] = []
    for (clients, setting), runs in turns.items():
        rate = statistics.median(run.served.rate for run in runs)
        cpu_ms = statistics.median(run.cpu_ms for run in runs)
        report.figure(f"mixed_{setting}_requests_per_s_{clients}_clients", rate)
        report.figure(f"mixed_{setting}_cpu_ms_{clients}_clients", cpu_ms)
        batch = statistics.median(run.served.batch or 1 for run in runs)
        p50 = statistics.median(run.served.p50_ms for run in runs)
        p99 = statistics.median(run.served.p99_ms for run in runs)
        rows.append([f"{clients} at each cut", setting, rate, cpu_ms, batch, p50, p99])
    columns = ["clients", "mixed_cuts", "requests/s", "CPU-ms", "mean batch", "p50 ms", "p99 ms"]
    cuts = ", ".join(payload.cut for payload in payloads)
    report.table(f"Requests at {cuts} at once", columns, rows)


def _edge(bundle: Bundle, setting: MixedCuts, workers: int, folder: Path) -> LocalEdge:
    config = folder / f"{setting}.toml"
    config.write_text(f'mixed_cuts = "{setting}"\nworkers = {workers}\nthreads = 1\n')
    return LocalEdge(bundle.path, log=folder / f"{setting}.log", options=("--config", str(config)))


def _turn(edge: LocalEdge, clients: int, payloads: Sequence[Payload], seconds: float) -> _Turn:
    crowd = [DeviceDialogue(payload) for _ in range(clients) for payload in payloads]
    with ClosedLoop(port_of(edge.endpoint), crowd) as loop:
        loop.run(0.5)
        before_s = usage(edge.pid).cpu_s
        served = loop.run(seconds)
        cpu_ms = 1000 * (usage(edge.pid).cpu_s - before_s) / served.requests
    return _Turn(served=served, cpu_ms=cpu_ms)
