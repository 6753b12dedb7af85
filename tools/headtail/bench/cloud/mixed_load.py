"""(b) Texts and tails on one engine: the share that keeps its times, by the rule that forms
iterations (`mix`).

*Modelled*: the scheduler that serves, on a clock that jumps, over an engine that computes nothing
at the price of a 7B model and a small network's tails on one accelerator. The medians of texts'
lengths are those of a published conversation trace.
"""

import argparse
from collections.abc import Sequence
from typing import Final

from headtail.bench.cloud.jumping_clock import served
from headtail.bench.cloud.mix import (
    COLUMNS,
    HALVES,
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
from headtail_cloud.core.engine import Capacity
from headtail_cloud.core.options import SchedulerOptions
from headtail_cloud.core.request import Segment
from headtail_cloud.core.task import Task, TaskResult, work_of
from headtail_cloud.engines.modelled import ModelledEngine, Prices

_PRICES: Final = Prices(
    step_s=0.001, prefill_s=0.0002, decode_s=0.0008, run_s=0.0015, item_s=0.00025
)
_HALF: Final = Prices(
    step_s=2 * _PRICES.step_s,
    prefill_s=2 * _PRICES.prefill_s,
    decode_s=2 * _PRICES.decode_s,
    run_s=2 * _PRICES.run_s,
    item_s=2 * _PRICES.item_s,
)
"""Of an engine of half the speed."""
_CAPACITY: Final = Capacity(max_batch=64, blocks=8192, block_tokens=16)
_TBT_S: Final = 0.1
_LOADS: Final = (("_light", 1.0, 100.0), ("", 2.0, 200.0))
"""A suffix of figures, texts and tails a second."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seconds", type=float, default=20.0, help="of modelled mixed load (default 20)"
    )
    parser.add_argument("--seeds", type=int, default=5, help="of its arrivals (default 5)")


def measure(report: Report, options: argparse.Namespace) -> None:
    rows: list[list[str | float]] = []
    known = rules(_PRICES.of, _TBT_S)
    half = by_tokens(_HALF.of, _TBT_S)
    for suffix, texts_s, tails_s in _LOADS:
        mix = Mix(
            texts_s=texts_s,
            tails_s=tails_s,
            model="lm@1",
            segment=Segment("network@1", "tail"),
            prompt_median=900.0,
            answer_median=130.0,
            longest=4000,
            ttft_s=2.0,
            tbt_s=_TBT_S,
            tail_s=0.05,
        )
        shares: dict[str, list[Share]] = {name: [] for name in (*known, HALVES)}
        for seed in range(options.seeds):
            arrivals = mix.arrivals(options.seconds, seed)
            for name, rule in known.items():
                shares[name].append(Share.of(_run(arrivals, rule, _PRICES)))
            parts = [_run(part, half, _HALF) for part in halves(arrivals)]
            shares[HALVES].append(Share.of({**parts[0], **parts[1]}))
        told = tell(report, shares, suffix=f"_modelled{suffix}")
        rows += [[str(mix), *row] for row in told]
    report.table(
        f"modelled, {options.seeds} runs: share in time (texts: first token 2 s, 100 ms between; "
        "tails: 50 ms)",
        ["texts + tails a second", *COLUMNS],
        rows,
    )


def _run(arrivals: Arrivals, rule: SchedulerOptions, prices: Prices) -> dict[str, End]:
    engine = ModelledEngine(limits=_CAPACITY, prices=prices)

    def step(tasks: Sequence[Task]) -> tuple[Sequence[TaskResult], float]:
        return engine.step(tasks), prices.of(work_of(tasks))

    return served(arrivals, rule, engine, step)
