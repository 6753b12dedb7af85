"""A mix of texts and tails, the rules that it is served under, and what became of it.

Arrivals are Poisson; lengths of texts are log-normal.

    time budget     the rule of this project
    token budget    Sarathi's: so many tokens an iteration, whatever is due
    whole prompts   no budget: a prompt is one iteration's work
    two halves      one half of the engine for each, with Sarathi's rule

Where a rule counts tokens, they are as many as that engine, or that half of one, computes within
the time between two tokens.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np

from headtail.bench.report import Report
from headtail_cloud.core.actions import Kind
from headtail_cloud.core.options import SchedulerOptions
from headtail_cloud.core.prices import Estimate, text_prices
from headtail_cloud.core.request import Request, Segment, TailRequest, TextRequest
from headtail_cloud.core.work import Work

HALVES: Final = "two halves"
TIME: Final = "time budget"
_TOKENS: Final = "token budget"
_SPREAD: Final = 0.8
_SHORTEST: Final = 8
_UNBOUNDED: Final = 1e6
_PLAIN: Final = {
    "longest_step_s": _UNBOUNDED,
    "shortest_budget_s": _UNBOUNDED,
    "headroom": math.inf,
    "max_waiting": 65_536,
    "max_waiting_per_tenant": 65_536,
}
"""Of rules that know no times: nothing is refused for being late."""
_BESIDE: Final = 8
_FILLED: Final = 0.9
_LEAST_BUDGET: Final = 16

Arrivals = Sequence[tuple[float, Request]]
"""When each comes, in seconds; tails first."""


class End(StrEnum):
    """What became of a request."""

    IN_TIME = "in time"
    LATE = "late"
    REFUSED = "refused"


Ended = Mapping[str, End]
"""By the request's id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """`texts_s` and `tails_s` come a second. Medians and the longest are in tokens."""

    texts_s: float
    tails_s: float
    model: str
    segment: Segment
    prompt_median: float
    answer_median: float
    longest: int
    ttft_s: float
    tbt_s: float
    tail_s: float
    tail_input: object = None

    def __str__(self) -> str:
        return f"{self.texts_s:.3g} + {self.tails_s:g}"

    def arrivals(self, seconds: float, seed: int) -> Arrivals:
        """The same for the same seed."""
        draw = np.random.default_rng(seed)
        tails = [(at, self._tail(n)) for n, at in _poisson(draw, self.tails_s, seconds)]
        texts = [(at, self._text(n, draw)) for n, at in _poisson(draw, self.texts_s, seconds)]
        return [*tails, *texts]

    def _tail(self, number: int) -> Request:
        return TailRequest(
            id=f"tail-{number}",
            tenant="tails",
            chain=(self.segment,),
            deadline_s=self.tail_s,
            input=self.tail_input,
        )

    def _text(self, number: int, draw: np.random.Generator) -> Request:
        prompt, answer = (
            int(np.clip(draw.lognormal(np.log(median), _SPREAD), _SHORTEST, self.longest))
            for median in (self.prompt_median, self.answer_median)
        )
        return TextRequest(
            id=f"text-{number}",
            tenant="texts",
            model=self.model,
            prompt=tuple(int(token) for token in draw.integers(100, 1000, prompt)),
            max_tokens=answer,
            ttft_s=self.ttft_s,
            tbt_s=self.tbt_s,
            input={"temperature": 0},
        )


def _poisson(draw: np.random.Generator, rate: float, seconds: float) -> Iterator[tuple[int, float]]:
    gaps = draw.exponential(1 / rate, int(2 * rate * seconds) + 10)
    yield from enumerate(float(at) for at in np.cumsum(gaps) if at < seconds)


def rules(estimate: Estimate, tbt_s: float) -> dict[str, SchedulerOptions]:
    """Those of one engine for both. `estimate`: the engine's."""
    return {
        TIME: SchedulerOptions(),
        _TOKENS: by_tokens(estimate, tbt_s),
        "whole prompts": SchedulerOptions(**_PLAIN),  # type: ignore[arg-type]
    }


def by_tokens(estimate: Estimate, tbt_s: float) -> SchedulerOptions:
    """Sarathi's rule. Its token budget is what that engine computes in the time between two tokens,
    beside some decodes."""
    room_s = _FILLED * tbt_s - estimate(Work(decodes=_BESIDE))
    tokens = max(_LEAST_BUDGET, int(room_s / text_prices(estimate).prefill_s))
    return SchedulerOptions(token_budget=tokens, **_PLAIN)  # type: ignore[arg-type]


def halves(arrivals: Arrivals) -> tuple[Arrivals, Arrivals]:
    """The tails among them, and the texts."""
    tails = [one for one in arrivals if isinstance(one[1], TailRequest)]
    texts = [one for one in arrivals if isinstance(one[1], TextRequest)]
    return tails, texts


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Shares of all requests of a kind that came."""

    in_time: float
    late: float
    refused: float

    @classmethod
    def of(cls, ends: Sequence[End]) -> "Split":
        """Raises ValueError without any."""
        if not ends:
            raise ValueError("a mix that is too short: no text came, or no tail")
        return cls(
            in_time=ends.count(End.IN_TIME) / len(ends),
            late=ends.count(End.LATE) / len(ends),
            refused=ends.count(End.REFUSED) / len(ends),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Of one run."""

    texts: Split
    tails: Split

    @classmethod
    def of(cls, ended: Ended) -> "Share":
        """Raises ValueError without a request of each kind."""
        texts, tails = (
            Split.of([end for name, end in ended.items() if name.startswith(f"{kind}-")])
            for kind in (Kind.TEXT, Kind.TAIL)
        )
        return cls(texts=texts, tails=tails)


def tell(
    report: Report, shares: Mapping[str, Sequence[Share]], *, suffix: str
) -> list[list[str | float]]:
    """Records figures and targets of rules' runs, one for each seed; returns their rows, one for
    each kind: means, and the worst run."""
    texts = {rule: [run.texts for run in runs] for rule, runs in shares.items()}
    tails = {rule: [run.tails for run in runs] for rule, runs in shares.items()}
    report.target(f"tail_slo_unified{suffix}", _mean(tails[TIME]), ">=", 0.999)
    report.target(f"llm_slo_unified{suffix}", _mean(texts[TIME]), ">=", 0.93)
    report.figure(f"llm_slo_halves{suffix}", _mean(texts[HALVES]))
    report.figure(f"tail_slo_sarathi{suffix}", _mean(tails[_TOKENS]))
    report.figure(f"llm_slo_sarathi{suffix}", _mean(texts[_TOKENS]))
    return [
        [rule, kind, *_row(splits[rule])]
        for rule in shares
        for kind, splits in (("texts", texts), ("tails", tails))
    ]


def _mean(splits: Sequence[Split]) -> float:
    return float(np.mean([split.in_time for split in splits]))


def _row(splits: Sequence[Split]) -> list[float]:
    return [
        _mean(splits),
        min(split.in_time for split in splits),
        float(np.mean([split.late for split in splits])),
        float(np.mean([split.refused for split in splits])),
    ]


COLUMNS: Final = ["rule", "", "in time", "worst run", "late", "refused"]
