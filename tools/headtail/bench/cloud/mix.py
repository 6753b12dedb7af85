"""A mix of texts and tails, the rules that it is served under, and the share that kept its times.

Arrivals are Poisson; lengths of texts are log-normal. What is not accepted counts as not in time.

    time budget     the rule of this project
    token budget    Sarathi's: so many tokens an iteration, whatever is due
    whole prompts   no budget: a prompt is one iteration's work
    two halves      one half of the engine for each, with Sarathi's rule
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from headtail.bench.report import Report
from headtail_cloud.core.actions import Kind
from headtail_cloud.core.options import SchedulerOptions
from headtail_cloud.core.request import Request, Segment, TailRequest, TextRequest

HALVES: Final = "two halves"
_TIME: Final = "time budget"
_TOKENS: Final = "token budget"
_SPREAD: Final = 0.8
_SHORTEST: Final = 8
_UNBOUNDED: Final = 1e6
_PLAIN: Final = {
    "longest_step_s": _UNBOUNDED,
    "shortest_budget_s": _UNBOUNDED,
    "headroom": _UNBOUNDED,
    "max_waiting": 65_536,
    "max_waiting_per_tenant": 65_536,
}
"""Of rules that know no times: nothing is refused for being late."""

Arrivals = Sequence[tuple[float, Request]]
"""When each comes, in seconds; tails first."""
Ended = Mapping[str, bool]
"""Whether each request was in time, by its id."""


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


def rules(token_budget: int) -> dict[str, SchedulerOptions]:
    """Those of one engine for both."""
    return {
        _TIME: SchedulerOptions(),
        _TOKENS: SchedulerOptions(token_budget=token_budget, **_PLAIN),  # type: ignore[arg-type]
        "whole prompts": SchedulerOptions(**_PLAIN),  # type: ignore[arg-type]
    }


def halves(arrivals: Arrivals) -> tuple[Arrivals, Arrivals]:
    """The tails among them, and the texts."""
    tails = [one for one in arrivals if isinstance(one[1], TailRequest)]
    texts = [one for one in arrivals if isinstance(one[1], TextRequest)]
    return tails, texts


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """In time, of all that came."""

    texts: float
    tails: float

    @classmethod
    def of(cls, ended: Ended) -> "Share":
        """Raises ValueError without a request of each kind."""
        by_kind = {
            kind: [value for name, value in ended.items() if name.startswith(f"{kind}-")]
            for kind in (Kind.TEXT, Kind.TAIL)
        }
        if not all(by_kind.values()):
            raise ValueError("a mix that is too short: no text came, or no tail")
        texts, tails = (float(np.mean(by_kind[kind])) for kind in (Kind.TEXT, Kind.TAIL))
        return cls(texts=texts, tails=tails)


def tell(
    report: Report, shares: Mapping[str, Sequence[Share]], *, suffix: str
) -> list[list[str | float]]:
    """Records figures and targets of rules' runs, one for each seed; returns their rows: the means,
    and the worst run."""
    rows: list[list[str | float]] = []
    means: dict[str, Share] = {}
    for rule, runs in shares.items():
        texts, tails = [run.texts for run in runs], [run.tails for run in runs]
        means[rule] = Share(texts=float(np.mean(texts)), tails=float(np.mean(tails)))
        rows.append([rule, means[rule].texts, min(texts), means[rule].tails, min(tails)])
    report.target(f"tail_slo_unified{suffix}", means[_TIME].tails, ">=", 0.999)
    report.target(f"llm_slo_unified{suffix}", means[_TIME].texts, ">=", 0.93)
    report.figure(f"llm_slo_halves{suffix}", means[HALVES].texts)
    report.figure(f"tail_slo_sarathi{suffix}", means[_TOKENS].tails)
    report.figure(f"llm_slo_sarathi{suffix}", means[_TOKENS].texts)
    return rows


COLUMNS: Final = ["rule", "texts", "worst run", "tails", "worst run"]
