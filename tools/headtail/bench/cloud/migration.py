"""Moving a running text to another worker process, against computing it again there.

Two workers with the same engine; the scheduler's own migration (`headtail_cloud.migration`) copies
a text's entries in stages while it decodes. The pause is the time between its last token at the
source and the moment when it can go on at the target; against it stands the prefill of all its
tokens, which is what the target would have to do otherwise.
"""

import argparse
import time
from dataclasses import dataclass
from typing import Final

import numpy as np

from headtail.bench.report import Report
from headtail_cloud.core.actions import Action, StartStep
from headtail_cloud.core.cost_model import CostModel
from headtail_cloud.core.events import RequestArrived, StepFinished
from headtail_cloud.core.job import TextJob
from headtail_cloud.core.request import TextRequest
from headtail_cloud.core.scheduler import Scheduler
from headtail_cloud.core.task import PrefillChunk
from headtail_cloud.migration.stages import Migration
from headtail_cloud.runtime.engine_spec import EngineSpec
from headtail_cloud.runtime.process_engine import ProcessEngine
from headtail_cloud.runtime.worker_process import ZygoteProcess

_LIMIT_S: Final = 300.0
_LLM: Final = "headtail_cloud.engines.llm.loading:llm_engine"
_CONTEXTS: Final = (128, 512, 1024)
_DECODES: Final = 12
_HASTE_S: Final = 3600.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--moves", type=int, default=3, help="at each length (default 3)")


@dataclass(slots=True)
class _Side:
    """A scheduler over a worker, worked by hand."""

    engine: ProcessEngine
    scheduler: Scheduler
    running: StartStep | None = None

    @classmethod
    def of(cls, engine: ProcessEngine) -> "_Side":
        return cls(engine, Scheduler(engine.capacity(), CostModel(engine.estimate)))

    def take(self, actions: list[Action]) -> None:
        self.running = next((a for a in actions if isinstance(a, StartStep)), None)

    def step(self) -> float:
        """Ends the iteration that runs; what it took."""
        assert self.running is not None
        started = time.perf_counter()
        results = self.engine.step(self.running.step.tasks)
        took_s = time.perf_counter() - started
        done = StepFinished(step_id=self.running.step.id, results=results, took_s=took_s)
        self.take(self.scheduler.on_event(done, time.monotonic()))
        return took_s


def measure(report: Report, options: argparse.Namespace) -> None:
    spec = EngineSpec(factory=_LLM, options={"model": options.model, "kv_mb": 128})
    zygote = ZygoteProcess(spec, resident=True, start_limit_s=_LIMIT_S)
    source, target = (ProcessEngine(*zygote.fork(), limit_s=_LIMIT_S) for _ in range(2))
    rows = []
    try:
        for context in _CONTEXTS:
            moves = [
                _move(source, target, options.model, context, number)
                for number in range(options.moves)
            ]
            pause_ms = float(np.median([1000 * move.pause_s for move in moves]))
            recompute_ms = float(np.median([1000 * move.recompute_s for move in moves]))
            kib = moves[0].copied_bytes / 1024
            rows.append([context, moves[0].stages, kib, pause_ms, recompute_ms])
            report.figure(f"migration_pause_ms_{context}", pause_ms)
            report.figure(f"migration_recompute_over_pause_{context}", recompute_ms / pause_ms)
    finally:
        source.close()
        target.close()
        zygote.stop()
    report.table(
        f"a text moves between two processes ({options.model}, {options.moves} moves each)",
        ["tokens", "stages", "copied KiB", "pause ms", "prefill again ms"],
        rows,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moved:
    stages: int
    copied_bytes: int
    pause_s: float
    recompute_s: float


def _move(
    source: ProcessEngine, target: ProcessEngine, model: str, context: int, number: int
) -> _Moved:
    """One text of that length, moved after a few tokens."""
    draw = np.random.default_rng([context, number])
    prompt = tuple(int(token) for token in draw.integers(100, 20_000, context))
    here, there = _Side.of(source), _Side.of(target)
    request = TextRequest(
        id="1",
        tenant="bench",
        model=model,
        prompt=prompt,
        max_tokens=4 * _DECODES,
        ttft_s=_HASTE_S,
        tbt_s=_HASTE_S,
        input={"temperature": 0},
    )
    here.take(here.scheduler.on_event(RequestArrived(request=request), time.monotonic()))
    (job,) = here.scheduler.jobs
    assert isinstance(job, TextJob)
    while job.ran < _DECODES:
        here.step()
    migration = Migration(job, source=here.scheduler, target=there.scheduler)
    copied, paused = 0, 0.0
    while not migration.complete:
        copy = migration.next_copy(time.monotonic())
        if copy is not None:
            paused = paused or (time.perf_counter() if job.held else 0.0)
            state = source.export(copy.source)
            target.import_(copy.target, state)
            copied += len(state)
            migration.copied()
        elif here.running is not None:
            here.step()
    there.take(migration.commit(time.monotonic()))
    pause_s = time.perf_counter() - paused
    there.step()
    return _Moved(
        stages=migration.stages,
        copied_bytes=copied,
        pause_s=pause_s,
        recompute_s=_prefill_s(target, model, tuple(job.tokens)),
    )


def _prefill_s(engine: ProcessEngine, model: str, tokens: tuple[int, ...]) -> float:
    """All of it at once, which is the soonest."""
    size = engine.capacity().block_tokens
    blocks = tuple(range(-(-len(tokens) // size)))
    chunk = PrefillChunk(
        request_id="1", model=model, tokens=tokens, start=0, blocks=blocks, last=True
    )
    started = time.perf_counter()
    engine.step([chunk])
    return time.perf_counter() - started
