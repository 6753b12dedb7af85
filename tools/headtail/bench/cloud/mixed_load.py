"""Texts and tails on one engine: the share that keeps its times, by the rule that forms iterations.

*Modelled*: the scheduler that serves, on a clock that jumps, over an engine that computes nothing
at the price of a 7B model and a small network's tails on one accelerator. Arrivals are Poisson;
lengths of texts are log-normal, with the medians of a published conversation trace. What is not
accepted counts as not in time.

    time budget     the rule of this project
    token budget    Sarathi's: 512 tokens an iteration, whatever is due
    whole prompts   no budget: a prompt is one iteration's work
    two halves      one half of the engine for each, with Sarathi's rule
"""

import argparse
import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from headtail.bench.report import Report
from headtail_cloud.core.actions import Finish, Kind, Reject, StartStep
from headtail_cloud.core.cost_model import CostModel
from headtail_cloud.core.engine import Capacity
from headtail_cloud.core.events import Event, RequestArrived, StepFinished, TimePassed
from headtail_cloud.core.options import SchedulerOptions
from headtail_cloud.core.request import Request, Segment, TailRequest, TextRequest
from headtail_cloud.core.scheduler import Scheduler
from headtail_cloud.core.task import work_of
from headtail_cloud.engines.modelled import ModelledEngine, Prices

_PRICES: Final = Prices(
    step_s=0.001, prefill_s=0.0002, decode_s=0.0008, run_s=0.0015, item_s=0.00025
)
_CAPACITY: Final = Capacity(max_batch=64, blocks=8192, block_tokens=16)
_SEGMENT: Final = Segment("network@1", "tail")
_UNBOUNDED: Final = 1e6
_TOKEN_BUDGET: Final = 512
_PLAIN: Final = {
    "longest_step_s": _UNBOUNDED,
    "shortest_budget_s": _UNBOUNDED,
    "headroom": _UNBOUNDED,
    "max_waiting": 65_536,
    "max_waiting_per_tenant": 65_536,
}
"""Of rules that know no times: nothing is refused for being late."""
_RULES: Final[dict[str, SchedulerOptions]] = {
    "time budget": SchedulerOptions(),
    "token budget": SchedulerOptions(token_budget=_TOKEN_BUDGET, **_PLAIN),  # type: ignore[arg-type]
    "whole prompts": SchedulerOptions(**_PLAIN),  # type: ignore[arg-type]
}
_TTFT_S: Final = 2.0
_TBT_S: Final = 0.1
_TAIL_S: Final = 0.05
_PROMPT_MEDIAN: Final = 900.0
_ANSWER_MEDIAN: Final = 130.0
_SPREAD: Final = 0.8
_LOADS: Final = (("_light", 1.0, 100.0), ("", 2.0, 200.0))
"""A suffix of figures, texts and tails a second."""
_LONGEST: Final = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Share:
    """In time, of all that came."""

    texts: float
    tails: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seconds", type=float, default=20.0, help="of modelled mixed load (default 20)"
    )
    parser.add_argument("--seeds", type=int, default=2, help="of its arrivals (default 2)")


def measure(report: Report, options: argparse.Namespace) -> None:
    rows: list[list[str | float]] = []
    for suffix, texts_s, tails_s in _LOADS:
        arrivals = [
            list(_arrivals(texts_s, tails_s, options.seconds, seed))
            for seed in range(options.seeds)
        ]
        shares = {
            name: _mean([_share([_run(one, rule, _PRICES)], one) for one in arrivals])
            for name, rule in _RULES.items()
        }
        shares["two halves"] = _mean([_share(_halves(one), one) for one in arrivals])
        for name, share in shares.items():
            rows.append([f"{texts_s:g} + {tails_s:g}", name, share.texts, share.tails])
        unified = shares["time budget"]
        report.target(f"tail_slo_unified{suffix}", unified.tails, ">=", 0.999)
        report.target(f"llm_slo_unified{suffix}", unified.texts, ">=", 0.93)
        report.figure(f"llm_slo_halves{suffix}", shares["two halves"].texts)
        report.figure(f"tail_slo_sarathi{suffix}", shares["token budget"].tails)
        report.figure(f"llm_slo_sarathi{suffix}", shares["token budget"].texts)
    report.table(
        "modelled: share in time (texts: first token 2 s, 100 ms between; tails: 50 ms)",
        ["texts + tails a second", "rule", "texts", "tails"],
        rows,
    )


def _arrivals(
    texts_s: float, tails_s: float, seconds: float, seed: int
) -> Iterator[tuple[float, Request]]:
    draw = np.random.default_rng(seed)
    times = _poisson(draw, tails_s, seconds)
    for number, at in enumerate(times):
        yield (
            at,
            TailRequest(id=f"tail-{number}", tenant="tails", chain=(_SEGMENT,), deadline_s=_TAIL_S),
        )
    for number, at in enumerate(_poisson(draw, texts_s, seconds)):
        prompt, answer = (
            int(np.clip(draw.lognormal(np.log(median), _SPREAD), 8, _LONGEST))
            for median in (_PROMPT_MEDIAN, _ANSWER_MEDIAN)
        )
        yield (
            at,
            TextRequest(
                id=f"text-{number}",
                tenant="texts",
                model="lm@1",
                prompt=tuple(int(token) for token in draw.integers(0, 1000, prompt)),
                max_tokens=answer,
                ttft_s=_TTFT_S,
                tbt_s=_TBT_S,
            ),
        )


def _poisson(draw: np.random.Generator, rate: float, seconds: float) -> list[float]:
    gaps = draw.exponential(1 / rate, int(2 * rate * seconds) + 10)
    return [float(at) for at in np.cumsum(gaps) if at < seconds]


def _halves(arrivals: Sequence[tuple[float, Request]]) -> list[dict[str, bool]]:
    """Two engines of half the speed."""
    half = Prices(
        step_s=2 * _PRICES.step_s,
        prefill_s=2 * _PRICES.prefill_s,
        decode_s=2 * _PRICES.decode_s,
        run_s=2 * _PRICES.run_s,
        item_s=2 * _PRICES.item_s,
    )
    tails = [one for one in arrivals if isinstance(one[1], TailRequest)]
    texts = [one for one in arrivals if isinstance(one[1], TextRequest)]
    return [_run(part, _RULES["token budget"], half) for part in (tails, texts)]


def _run(
    arrivals: Sequence[tuple[float, Request]], rule: SchedulerOptions, prices: Prices
) -> dict[str, bool]:
    """Whether each that was accepted was in time."""
    engine = ModelledEngine(limits=_CAPACITY, prices=prices)
    scheduler = Scheduler(_CAPACITY, CostModel(engine.estimate), rule)
    plan: list[tuple[float, int, Event]] = [
        (at, number, RequestArrived(request=request))
        for number, (at, request) in enumerate(arrivals)
    ]
    heapq.heapify(plan)
    number, now = len(plan), 0.0
    on_time: dict[str, bool] = {}
    while True:
        timer = scheduler.next_timer()
        at = min(plan[0][0] if plan else np.inf, np.inf if timer is None else timer)
        if at == np.inf:
            return on_time
        now = max(now, at)
        event = heapq.heappop(plan)[2] if plan and plan[0][0] <= at else TimePassed()
        for action in scheduler.on_event(event, now):
            match action:
                case StartStep(step=step):
                    took_s = prices.of(work_of(step.tasks))
                    results = engine.step(step.tasks)
                    ended = StepFinished(step_id=step.id, results=results, took_s=took_s)
                    number += 1
                    heapq.heappush(plan, (now + took_s, number, ended))
                case Finish(request_id=request_id, kind=kind):
                    on_time[f"{kind}:{request_id}"] = action.on_time
                case Reject(request_id=request_id):
                    kind = Kind.TEXT if request_id.startswith("text") else Kind.TAIL
                    on_time[f"{kind}:{request_id}"] = False


def _share(runs: Sequence[dict[str, bool]], arrivals: Sequence[tuple[float, Request]]) -> _Share:
    ended = {key: value for run in runs for key, value in run.items()}
    assert len(ended) == len(arrivals)

    def of(kind: Kind) -> float:
        return float(np.mean([v for k, v in ended.items() if k.startswith(f"{kind}:")]))

    return _Share(texts=of(Kind.TEXT), tails=of(Kind.TAIL))


def _mean(shares: Sequence[_Share]) -> _Share:
    def over(pick: Callable[[_Share], float]) -> float:
        return float(np.mean([pick(share) for share in shares]))

    return _Share(texts=over(lambda share: share.texts), tails=over(lambda share: share.tails))
