"""(b) live: the same rules (`mix`) over real engines.

A language model in float32 and a real tail compute, in one engine of one thread. The clock is the
processor time that they and the scheduler take, so that others on the machine don't count; with
`--live-real-time` it is the wall's, with the runtime that serves, for an idle machine.

Tails are due in 50 ms, and an iteration can't be interrupted, so the language model is cut to as
many of its first layers as let a token fit well inside that (`--live-layers`): its words are
nonsense, its work is not. "Two halves" are two engines, each at half the speed.

Texts come at the lowest rate found at which two halves keep less than a fifth of them. It is found
anew for each turn, right before the rules take it, since a shared machine does not stay as fast as
it was. It is told as a share of what one engine could serve then, at best, whose iterations are as
long as tails can wait.
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

from headtail.bench.cloud.jumping_clock import end_of, served
from headtail.bench.cloud.mix import (
    COLUMNS,
    HALVES,
    TIME,
    Arrivals,
    End,
    Mix,
    Share,
    by_tokens,
    halves,
    rules,
    tell,
)
from headtail.bench.report import Report
from headtail.provision import ensure_bundle
from headtail_cloud.core.cost_model import CostModel
from headtail_cloud.core.engine import Capacity, Engine, StateRef
from headtail_cloud.core.options import SchedulerOptions
from headtail_cloud.core.prices import TextPrices, text_prices
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
_TURNS: Final = 3
_PROBES: Final = 5
_RUNS: Final = 4
"""Of a turn: three rules on one engine, and two halves."""
_FEW: Final = 0.2
"""Texts in time, of two halves that are overloaded."""
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
        "--live-texts",
        type=float,
        help="a second (default: where two halves keep less than a fifth of them)",
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
    """An engine at half its speed: in real time it rests as long as it has computed; by the clock
    of processor time what it takes counts double."""

    def __init__(self, engine: Engine, *, rests: bool) -> None:
        self._engine = engine
        self._rests = rests

    def capacity(self) -> Capacity:
        return self._engine.capacity()

    def estimate(self, work: Work) -> float:
        return 2 * self._engine.estimate(work)

    def step(self, tasks: Sequence[Task]) -> list[TaskResult]:
        started = time.perf_counter()
        results = self._engine.step(tasks)
        if self._rests:
            time.sleep(time.perf_counter() - started)
        return results

    def export(self, state: StateRef) -> bytes:
        return self._engine.export(state)

    def import_(self, state: StateRef, data: bytes) -> None:
        self._engine.import_(state, data)


def measure(report: Report, options: argparse.Namespace) -> None:
    ensure_bundle(options.live_tail.partition(":")[0])
    (tail,) = load_tails([options.live_tail])
    checkpoint = _first_layers(model_store.checkpoint(options.model), options.live_layers)
    engines = _Engines(checkpoint=checkpoint, tail=tail)
    mix = _mix(options.live_tails, tail, checkpoint.name)
    turns: list[_Turn] = []
    with Progress(transient=True) as progress:
        probes = 0 if options.live_texts is not None else _PROBES
        task = progress.add_task("mixed load", total=options.live_seeds * (probes + _RUNS))
        step = partial(progress.advance, task)
        for seed in range(options.live_seeds):
            turns.append(_turn(engines, mix, options, seed=seed, done=step))
    shares = {name: [turn.shares[name] for turn in turns] for name in turns[0].shares}
    rates = [turn.texts_s for turn in turns]
    prices = turns[-1].prices
    mix = replace(mix, texts_s=median(rates))
    clock = "real" if options.live_real_time else "processor"
    promises = f"first token {_TTFT_S:g} s, {1000 * _TBT_S:g} ms between"
    report.table(
        f"live, {clock} time, {options.live_seeds} runs of {options.live_seconds:g} s, {mix} texts "
        f"and tails a second: share in time (texts: {promises}; tails: {1000 * _TAIL_S:g} ms)",
        COLUMNS,
        tell(report, shares, suffix=""),
    )
    loads = [turn.load for turn in turns]
    report.figure("live_texts_s", mix.texts_s)
    report.figure("live_load", median(loads))
    report.figure("live_load_most", max(loads))
    report.figure("live_run_ms", 1000 * (prices.run_s + prices.several_s))
    report.figure("live_prefill_ms", 1000 * prices.prefill_s)
    report.figure("live_decode_ms", 1000 * prices.decode_s)
    report.note(
        f"{options.model}, the first {options.live_layers} of its layers, and {options.live_tail}; "
        f"prompts and answers of {_PROMPT_MEDIAN:g} and {_ANSWER_MEDIAN:g} tokens (medians); "
        f"{', '.join(f'{rate:.3g}' for rate in rates)} texts a second; of what one engine could "
        f"serve at best beside those tails, as the runs of the time budget ended, that was "
        f"{', '.join(f'{load:.2f}' for load in loads)}"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Turn:
    """What each rule made of the same arrivals; `load`: their share of what one engine could serve
    when the time budget had run."""

    texts_s: float
    prices: TextPrices
    load: float
    shares: dict[str, Share]


def _turn(
    engines: _Engines,
    mix: Mix,
    options: argparse.Namespace,
    *,
    seed: int,
    done: Callable[[], None],
) -> _Turn:
    prices = _prices(engines)
    rig = _Rig(engines=engines, prices=prices, real_time=options.live_real_time)
    texts_s = options.live_texts
    if texts_s is None:
        most_s = _most_texts_s(options.live_tails, engines.tail, prices)
        texts_s = _overload_s(rig, mix, most_s, options.live_seconds, seed, done)
    arrivals = replace(mix, texts_s=texts_s).arrivals(options.live_seconds, seed)
    shares: dict[str, Share] = {}
    load = 0.0
    for name, rule in rules(prices.of, _TBT_S).items():
        shares[name], prices_then = rig.joint(arrivals, rule)
        if name == TIME:
            load = texts_s / _most_texts_s(options.live_tails, engines.tail, prices_then)
        done()
    shares[HALVES] = rig.halves(arrivals)
    done()
    return _Turn(texts_s=texts_s, prices=prices, load=load, shares=shares)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rig:
    """Runs a mix under a rule."""

    engines: _Engines
    prices: TextPrices
    real_time: bool

    def joint(self, arrivals: Arrivals, rule: SchedulerOptions) -> tuple[Share, TextPrices]:
        """On one engine for both; and what it was found to cost at the end, by the clock of
        processor time."""
        engine = JointEngine(self.engines.tails(), self.engines.texts())
        if self.real_time:
            return _in_real_time([(engine, arrivals)], rule), self.prices
        costs = CostModel(engine.estimate)
        return Share.of(_in_processor_time(engine, arrivals, rule, costs)), text_prices(
            costs.estimate
        )

    def halves(self, arrivals: Arrivals) -> Share:
        """On two of half the speed."""
        both: tuple[Engine, Engine] = (self.engines.tails(), self.engines.texts())
        halved = [_Halved(engine, rests=self.real_time) for engine in both]
        parts = list(zip(halved, halves(arrivals), strict=True))
        rule = by_tokens(lambda work: 2 * self.prices.of(work), _TBT_S)
        if self.real_time:
            return _in_real_time(parts, rule)
        ended: dict[str, End] = {}
        for engine, arrived in parts:
            ended |= _in_processor_time(engine, arrived, rule, CostModel(engine.estimate))
        return Share.of(ended)


def _overload_s(
    rig: _Rig, mix: Mix, most_s: float, seconds: float, seed: int, probed: Callable[[], None]
) -> float:
    """The lowest rate found at which two halves keep few texts of such arrivals, by bisection."""
    low_s, high_s = 0.0, 2 * most_s
    for _ in range(_PROBES):
        middle_s = (low_s + high_s) / 2
        probe = replace(mix, texts_s=middle_s)
        few = rig.halves(probe.arrivals(seconds, seed)).texts.in_time < _FEW
        low_s, high_s = (low_s, middle_s) if few else (middle_s, high_s)
        probed()
    return high_s


def _first_layers(checkpoint: Checkpoint, layers: int) -> Checkpoint:
    return replace(checkpoint, shape=structs.replace(checkpoint.shape, layers=layers))


def _prices(engines: _Engines) -> TextPrices:
    """What an engine finds out about itself, the middle of a few."""
    turns = [text_prices(engines.texts().estimate) for _ in range(_TURNS)]
    return TextPrices(
        **{
            name: median(getattr(prices, name) for prices in turns)
            for name in TextPrices.__struct_fields__
        }
    )


def _most_texts_s(tails_s: float, tail: ServedTail, prices: TextPrices) -> float:
    """Texts a second that fill an engine whose iterations are all as long as a tail can wait."""
    run_s = prices.run_s + prices.several_s
    share = max(0.0, 1 - run_s / _TAIL_S - tails_s * (tail.run_s + tail.item_s))
    text_s = prices.first_s + _LENGTHENED * (
        _PROMPT_MEDIAN * prices.prefill_s + _ANSWER_MEDIAN * prices.decode_s
    )
    return share / text_s


def _mix(tails_s: float, tail: ServedTail, model: str) -> Mix:
    tensor = np.random.default_rng(0).random((1, *tail.input.shape), dtype=np.float32)
    return Mix(
        texts_s=0.0,
        tails_s=tails_s,
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


def _in_processor_time(
    engine: Engine, arrivals: Arrivals, rule: SchedulerOptions, costs: CostModel
) -> dict[str, End]:
    step = partial(_timed, engine)
    return served(arrivals, rule, engine, step, costs=costs, spent_s=time.thread_time)


def _timed(engine: Engine, tasks: Sequence[Task]) -> tuple[Sequence[TaskResult], float]:
    started = time.thread_time()
    results = engine.step(tasks)
    took_s = time.thread_time() - started
    return results, 2 * took_s if isinstance(engine, _Halved) else took_s


def _in_real_time(parts: Sequence[_Part], rule: SchedulerOptions) -> Share:
    """All parts at the same time."""

    async def whole() -> dict[str, End]:
        async with AsyncExitStack() as stack:
            work = []
            for engine, arrivals in parts:
                runtime = InProcessRuntime(engine, options=rule)
                stack.push_async_callback(runtime.close, _GRACE_S)
                began_at = asyncio.get_running_loop().time()
                work += [_asked(runtime, request, began_at + at) for at, request in arrivals]
            return dict(await asyncio.gather(*work))

    return Share.of(asyncio.run(whole()))


async def _asked(runtime: InProcessRuntime, request: Request, at: float) -> tuple[str, End]:
    """What became of it."""
    await asyncio.sleep(at - asyncio.get_running_loop().time())
    return request.id, end_of(await runtime.submit(request).end())
