"""The cold-start ladder: what starting an instance takes, from each tier, until it is ready and
until its first answer.

    on disk    a fresh process: Python, its modules, the model
    zygote     forked from a process that has the modules; the model is opened, its weights mapped
    resident   forked from a process that has the model; memory is shared until it is written to

Fresh processes find their files in the page cache: a first start after boot takes longer. Processor
time is that of all processes that took part, until the instance was ready: on an idle machine a
start takes about as long.
"""

import argparse
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from headtail.bench.report import Report
from headtail.provision import ensure_bundle
from headtail_cloud.core.task import PrefillChunk, TailItem, Task
from headtail_cloud.engines.loading import describe_tails
from headtail_cloud.engines.served_tail import TailInput
from headtail_cloud.runtime.engine_spec import EngineSpec
from headtail_cloud.runtime.process_engine import ProcessEngine
from headtail_cloud.runtime.worker_message import Profile
from headtail_cloud.runtime.worker_process import (
    WorkerProcess,
    ZygoteProcess,
    start_fresh,
)

_LIMIT_S: Final = 300.0
_TARGET_MS: Final = 25.0
_LLM: Final = "headtail_cloud.engines.llm.loading:llm_engine"
_TAILS: Final = "headtail_cloud.engines.loading:tail_engine"

_Start = Callable[[], tuple[WorkerProcess, Profile]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Subject:
    """An engine, and the least that it can be asked."""

    name: str
    spec: EngineSpec
    task: Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """Milliseconds, one of each start; `cpu_ms` of processors, until it was ready."""

    ready_ms: list[float]
    cpu_ms: list[float]
    answered_ms: list[float]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--starts", type=int, default=20, help="from each tier (default 20)")
    parser.add_argument(
        "--tail", default="yolov3-tiny-coco", metavar="BUNDLE[:CUT]", help="default: %(default)s"
    )
    parser.add_argument(
        "--llm-starts", type=int, default=5, help="of the language model (default 5)"
    )


def measure(report: Report, options: argparse.Namespace) -> None:
    rows: list[list[str | float]] = []
    ensure_bundle(options.tail.partition(":")[0])
    tail = _ladder(_tail(options.tail), options.starts, rows)
    report.target("cold_start_fork_p50_ms", _p50(tail["resident"].ready_ms), "<=", _TARGET_MS)
    _note(report, "cold_start", tail)
    if options.llm_starts:
        llm = _ladder(_llm(options.model), options.llm_starts, rows)
        report.figure("cold_start_llm_fork_p50_ms", _p50(llm["resident"].ready_ms))
        _note(report, "cold_start_llm", llm)
    report.table(
        f"cold starts, {options.starts} and {options.llm_starts} from each tier (milliseconds)",
        ["engine", "from", "ready p50", "p95", "processor p50", "first answer p50", "p95"],
        rows,
    )


def _ladder(subject: _Subject, starts: int, rows: list[list[str | float]]) -> dict[str, Rung]:
    """Of one engine; its rows are added."""
    ladder = {"on disk": _rung(_fresh(subject.spec), subject, starts)}
    for tier, resident in (("zygote", False), ("resident", True)):
        zygote = ZygoteProcess(subject.spec, resident=resident, start_limit_s=_LIMIT_S)
        try:
            ladder[tier] = _rung(zygote.fork, subject, starts, parent=zygote.pid)
        finally:
            zygote.stop()
    rows += [_row(subject.name, tier, rung) for tier, rung in ladder.items()]
    return ladder


def _note(report: Report, prefix: str, ladder: dict[str, Rung]) -> None:
    fork_ms, fresh_ms = _p50(ladder["resident"].ready_ms), _p50(ladder["on disk"].ready_ms)
    report.figure(f"{prefix}_fork_cpu_p50_ms", _p50(ladder["resident"].cpu_ms))
    report.figure(f"{prefix}_fork_p95_ms", _p95(ladder["resident"].ready_ms))
    report.figure(f"{prefix}_zygote_p50_ms", _p50(ladder["zygote"].ready_ms))
    report.figure(f"{prefix}_fresh_p50_ms", fresh_ms)
    report.figure(f"{prefix}_fresh_over_fork", fresh_ms / fork_ms)


def _rung(start: _Start, subject: _Subject, starts: int, *, parent: int | None = None) -> Rung:
    ready_ms, cpu_ms, answered_ms = [], [], []
    for _ in range(starts):
        started, used_ms = time.perf_counter(), _used_ms(parent)
        engine = ProcessEngine(*start(), limit_s=_LIMIT_S)
        ready_ms.append(1000 * (time.perf_counter() - started))
        cpu_ms.append(_used_ms(parent) - used_ms + _scheduled_ms(engine.pid))
        engine.step([subject.task])
        answered_ms.append(1000 * (time.perf_counter() - started))
        engine.close()
    return Rung(ready_ms=ready_ms, cpu_ms=cpu_ms, answered_ms=answered_ms)


def _used_ms(parent: int | None) -> float:
    """Processor time so far, of this process and of the one that forks."""
    return 1000 * time.process_time() + (0.0 if parent is None else _scheduled_ms(parent))


def _scheduled_ms(pid: int) -> float:
    """Processor time of a process of one thread."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e6


def _fresh(spec: EngineSpec) -> _Start:
    return lambda: start_fresh(spec, start_limit_s=_LIMIT_S)


def _tail(reference: str) -> _Subject:
    model = describe_tails([reference])[-1]
    tensor = np.zeros((1, *model.input.shape), model.input.dtype)
    given = TailInput(payload=tensor.tobytes(), shape=tensor.shape)
    return _Subject(
        name=model.name,
        spec=EngineSpec(factory=_TAILS, options={"models": [model.name], "max_batch": 8}),
        task=TailItem(request_id="1", segment=model.segment, input=given),
    )


def _llm(model: str) -> _Subject:
    chunk = PrefillChunk(
        request_id="1", model=model, tokens=(1, 2, 3, 4), start=0, blocks=(0,), last=True
    )
    spec = EngineSpec(factory=_LLM, options={"model": model, "kv_mb": 64})
    return _Subject(name=model, spec=spec, task=chunk)


def _row(name: str, tier: str, rung: Rung) -> list[str | float]:
    return [
        name,
        tier,
        _p50(rung.ready_ms),
        _p95(rung.ready_ms),
        _p50(rung.cpu_ms),
        _p50(rung.answered_ms),
        _p95(rung.answered_ms),
    ]


def _p50(values: Iterable[float]) -> float:
    return float(np.median(list(values)))


def _p95(values: Iterable[float]) -> float:
    return float(np.percentile(list(values), 95))
