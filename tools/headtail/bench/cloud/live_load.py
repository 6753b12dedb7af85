"""(b) live: the same rules (`mix`) over real engines.

A language model in float32 and a real tail compute, in one engine of one thread. The clock is the
processor time that they and the scheduler take, so that others on the machine don't count; with
`--live-real-time` it is the wall's, with the runtime that serves, for an idle machine.

Tails are due in 50 ms, and an iteration can't be interrupted, so the language model is cut to as
many of its first layers as let a token fit well inside that (`--live-layers`): its words are
nonsense, its work is not. Texts come at a share of what this machine can do, found out before.
"Two halves" are two engines, each at half the speed.
"""

import argparse
import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import Final

import numpy as np
from msgspec import structs
from rich.progress import Progress

from headtail.bench.cloud.jumping_clock import served
from headtail.bench.cloud.mix import COLUMNS, HALVES, Arrivals, Mix, Share, halves, rules, tell
from headtail.bench.cloud.texts import Sequences, prompt
from headtail.bench.report import Report
from headtail_cloud.core.actions import Finish
from headtail_cloud.core.engine import Capacity, Engine, StateRef
from headtail_cloud.core.options import SchedulerOptions
from headtail_cloud.core.request import Request
from headtail_cloud.core.task import Task, TaskResult
from headtail_cloud.core.work import Work
from headtail_cloud.engines.joint import JointEngine
from headtail_cloud.engines.llm import model_store
from headtail_cloud.engines.llm.checkpoint import Checkpoint
from headtail_cloud.engines.llm.engine import LlmEngine, options_for
from headtail_cloud.engines.loading import load_tails
from headtail_cloud.engines.served_tail import ServedTail, TailInput
from headtail_cloud.engines.tail import TailEngine
from headtail_cloud.runtime.in_process import InProcessRuntime

_PROMPT_MEDIAN: Final = 32.0
_ANSWER_MEDIAN: Final = 16.0
_LENGTHENED: Final = 1.38
"""A log-normal's mean over its median, at that spread."""
_LONGEST: Final = 128
_TTFT_S: Final = 1.0
_TBT_S: Final = 0.1
_TAIL_S: Final = 0.05
_BESIDE: Final = 4
"""Texts that decode at a time, as the load is found."""
_TURNS: Final = 9
_GRACE_S: Final = 20.0

_Part = tuple[Engine, Arrivals]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--live-tail", default="resnet-cifar10:latents", help="default: %(default)s"
    )
    parser.add_argument(
        "--live-layers", type=int, default=6, help="of the language model (default 6)"
    )
    parser.add_argument(
        "--live-share",
        type=float,
        default=0.6,
        help="of the engine's time that texts ask for (default 0.6)",
    )
    parser.add_argument("--live-tails", type=float, default=100.0, help="a second (default 100)")
    parser.add_argument("--live-seconds", type=float, default=15.0, help="of a run (default 15)")
    parser.add_argument("--live-seeds", type=int, default=3, help="of its arrivals (default 3)")
    parser.add_argument(
        "--live-real-time", action="store_true", help="by the wall's clock: for an idle machine"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Engines:
    """Made anew for each run: what one has left in a cache must not help another."""

    checkpoint: Checkpoint
    tail: ServedTail

    def texts(self) -> LlmEngine:
        options = options_for(self.checkpoint, kv_mb=256, max_batch=16)
        return LlmEngine(self.checkpoint, options=options, timer=time.thread_time)

    def tails(self) -> TailEngine:
        return TailEngine([self.tail], max_batch=16)


class _Halved:
    """An engine at half its speed, by resting as long as it has computed."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def capacity(self) -> Capacity:
        return self._engine.capacity()

    def estimate(self, work: Work) -> float:
        return 2 * self._engine.estimate(work)

    def step(self, tasks: Sequence[Task]) -> list[TaskResult]:
        started = time.perf_counter()
        results = self._engine.step(tasks)
        time.sleep(time.perf_counter() - started)
        return results

    def export(self, state: StateRef) -> bytes:
        return self._engine.export(state)

    def import_(self, state: StateRef, data: bytes) -> None:
        self._engine.import_(state, data)


def measure(report: Report, options: argparse.Namespace) -> None:
    (tail,) = load_tails([options.live_tail])
    checkpoint = _first_layers(model_store.checkpoint(options.model), options.live_layers)
    engines = _Engines(checkpoint=checkpoint, tail=tail)
    costs = _costs(engines.texts(), checkpoint.name)
    mix = _mix(options, tail, costs, checkpoint.name)
    known = rules(max(16, round(_TBT_S / costs.prefill_s)))
    shares: dict[str, list[Share]] = {name: [] for name in (*known, HALVES)}
    clock = "real" if options.live_real_time else "processor"
    run = _in_real_time if options.live_real_time else _in_processor_time
    with Progress(transient=True) as progress:
        task = progress.add_task("mixed load", total=options.live_seeds * len(shares))
        for seed in range(options.live_seeds):
            arrivals = mix.arrivals(options.live_seconds, seed)
            for name, rule in known.items():
                joint = JointEngine(engines.tails(), engines.texts())
                shares[name].append(run([(joint, arrivals)], rule))
                progress.advance(task)
            halved = [_Halved(engines.tails()), _Halved(engines.texts())]
            parts = list(zip(halved, halves(arrivals), strict=True))
            shares[HALVES].append(run(parts, known["token budget"]))
            progress.advance(task)
    promises = f"first token {_TTFT_S:g} s, {1000 * _TBT_S:g} ms between"
    report.table(
        f"live, {clock} time, {options.live_seeds} runs of {options.live_seconds:g} s, {mix} texts "
        f"and tails a second: share in time (texts: {promises}; tails: {1000 * _TAIL_S:g} ms)",
        COLUMNS,
        tell(report, shares, suffix=""),
    )
    report.figure("live_texts_s", mix.texts_s)
    report.figure("live_prefill_ms", 1000 * costs.prefill_s)
    report.figure("live_decode_ms", 1000 * costs.decode_s)
    report.note(
        f"{options.model}, the first {options.live_layers} of its layers, and {options.live_tail}; "
        f"prompts and answers of {_PROMPT_MEDIAN:g} and {_ANSWER_MEDIAN:g} tokens (medians)"
    )


def _first_layers(checkpoint: Checkpoint, layers: int) -> Checkpoint:
    return replace(checkpoint, shape=structs.replace(checkpoint.shape, layers=layers))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Costs:
    """Seconds: of a prompt's token in a chunk, of a text's token among others', of one alone."""

    prefill_s: float
    beside_s: float
    decode_s: float


def _costs(engine: LlmEngine, model: str) -> _Costs:
    texts = Sequences(engine, [model] * _BESIDE, _LONGEST)
    size = round(_PROMPT_MEDIAN)
    for at in range(_BESIDE):
        texts.step([texts.chunk(at, prompt(at, size))])

    def took_s(make: Callable[[], list[Task]]) -> float:
        times: list[float] = []
        for _ in range(_TURNS):
            texts.rewind(size)
            tasks = make()
            started = time.thread_time()
            texts.step(tasks)
            times.append(time.thread_time() - started)
        return median(times)

    return _Costs(
        prefill_s=took_s(lambda: [texts.chunk(0, prompt(0, size))]) / size,
        beside_s=took_s(lambda: [texts.decode(at) for at in range(_BESIDE)]) / _BESIDE,
        decode_s=took_s(lambda: [texts.decode(0)]),
    )


def _mix(options: argparse.Namespace, tail: ServedTail, costs: _Costs, model: str) -> Mix:
    text_s = _LENGTHENED * (_PROMPT_MEDIAN * costs.prefill_s + _ANSWER_MEDIAN * costs.beside_s)
    tensor = np.random.default_rng(0).random((1, *tail.input.shape), dtype=np.float32)
    return Mix(
        texts_s=options.live_share / text_s,
        tails_s=options.live_tails,
        model=model,
        segment=tail.segment,
        prompt_median=_PROMPT_MEDIAN,
        answer_median=_ANSWER_MEDIAN,
        longest=_LONGEST,
        ttft_s=_TTFT_S,
        tbt_s=_TBT_S,
        tail_s=_TAIL_S,
        tail_input=TailInput(payload=tensor.tobytes(), shape=tensor.shape),
    )


def _in_processor_time(parts: Sequence[_Part], rule: SchedulerOptions) -> Share:
    ended: dict[str, bool] = {}
    for engine, arrivals in parts:
        ended |= served(arrivals, rule, engine, partial(_timed, engine), spent_s=time.thread_time)
    return Share.of(ended)


def _timed(engine: Engine, tasks: Sequence[Task]) -> tuple[Sequence[TaskResult], float]:
    started = time.thread_time()
    results = engine.step(tasks)
    took_s = time.thread_time() - started
    return results, 2 * took_s if isinstance(engine, _Halved) else took_s


def _in_real_time(parts: Sequence[_Part], rule: SchedulerOptions) -> Share:
    """All parts at the same time."""

    async def whole() -> dict[str, bool]:
        async with AsyncExitStack() as stack:
            work = []
            for engine, arrivals in parts:
                runtime = InProcessRuntime(engine, options=rule)
                stack.push_async_callback(runtime.close, _GRACE_S)
                began_at = asyncio.get_running_loop().time()
                work += [_asked(runtime, request, began_at + at) for at, request in arrivals]
            return dict(await asyncio.gather(*work))

    return Share.of(asyncio.run(whole()))


async def _asked(runtime: InProcessRuntime, request: Request, at: float) -> tuple[str, bool]:
    """Whether it was in time."""
    await asyncio.sleep(at - asyncio.get_running_loop().time())
    end = await runtime.submit(request).end()
    return request.id, isinstance(end, Finish) and end.on_time
