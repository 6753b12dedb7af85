"""Whether a request is taken, judged when it arrives: better refused now than late.

    tail    what is left of the running iteration, the tails that come before it in its tenants'
            turns, and its own segments must fit its deadline (`tail_forecast`)
    text    prefills before it and its own, at the share of the engine that decodes and tails
            leave, must fit its time to the first token; and with it, all decodes the tightest
            time between tokens (the load predicted for the end of its prefill, after Mooncake,
            FAST 2025; `text_forecast`)

What does not fit is tried in its fallbacks, then refused with the time after which to come again.
"""

from collections.abc import Collection, Hashable
from dataclasses import dataclass

from headtail_cloud.core import text_forecast
from headtail_cloud.core.actions import Reason
from headtail_cloud.core.job import Job
from headtail_cloud.core.protection import Protection
from headtail_cloud.core.request import Request, TailRequest, TextRequest
from headtail_cloud.core.resources import Resources
from headtail_cloud.core.tail_forecast import TailForecast, items_of, tails_of
from headtail_cloud.core.text_forecast import TextForecast, texts_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """`variant` 0 is what was asked for."""

    variant: int
    predicted_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Without `retry_after_s` coming again would not help."""

    reason: Reason
    retry_after_s: float | None = None


Verdict = Taken | Refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """Of a tail's answer, or a text's first token: how long it waits, and how long it takes with
    the blocks that are in the cache."""

    queue_s: float
    run_s: float


class Admission:
    """Judges by what is here and by the cost model; remembers when it last took what."""

    def __init__(self, resources: Resources, protection: Protection) -> None:
        self._resources = resources
        self._protection = protection
        self._options = resources.options
        self._taken_at: dict[Hashable, float] = {}

    def judge(
        self, request: Request, jobs: Collection[Job], *, step_left_s: float, now: float
    ) -> Verdict:
        """`jobs`: all that are here; `step_left_s`: of the running iteration."""
        if len(jobs) >= self._options.max_waiting:
            return self._later(Reason.QUEUE_FULL, self._backlog_s(jobs))
        if self._resources.shares.count(request.tenant) >= self._options.max_waiting_per_tenant:
            own = [job for job in jobs if job.tenant == request.tenant]
            return self._later(Reason.TENANT_LIMIT, self._backlog_s(own))
        if isinstance(request, TailRequest):
            forecast = TailForecast(
                request=request,
                tails=tails_of(jobs),
                step_left_s=step_left_s,
                now=now,
                resources=self._resources,
            )
            verdict = self._judge_tail(request, forecast)
        else:
            verdict = self._judge_text(request, jobs, step_left_s, now)
        if isinstance(verdict, Taken):
            self._taken_at[_kind(request)] = now
        return verdict

    def forecast(
        self, request: Request, jobs: Collection[Job], *, step_left_s: float, now: float
    ) -> Forecast:
        """What would become of it here, whether it is taken or not."""
        if isinstance(request, TailRequest):
            tails = TailForecast(
                request=request,
                tails=tails_of(jobs),
                step_left_s=step_left_s,
                now=now,
                resources=self._resources,
            )
            return _forecast(tails.end_s(request.chain), self._resources.chain_s(request.chain))
        busy = self._among(request, jobs, step_left_s, now)
        return _forecast(busy.first_s, text_forecast.alone(request, self._resources).first_s)

    def _judge_tail(self, request: TailRequest, forecast: TailForecast) -> Verdict:
        limit_s = request.deadline_s * self._options.headroom
        chains = (request.chain, *request.fallbacks)
        alone_s = [self._resources.chain_s(chain) for chain in chains]
        cheapest = alone_s.index(min(alone_s))
        if alone_s[cheapest] > limit_s:
            return self._probe(request, cheapest, alone_s[cheapest], forecast.now)
        ends_s = [forecast.end_s(chain) for chain in chains]
        for variant, (chain, end_s) in enumerate(zip(chains, ends_s, strict=True)):
            if end_s <= limit_s and forecast.leaves_room(chain):
                return Taken(variant=variant, predicted_s=end_s)
        return self._later(Reason.TOO_LATE, min(ends_s) - limit_s)

    def _judge_text(
        self, request: TextRequest, jobs: Collection[Job], step_left_s: float, now: float
    ) -> Verdict:
        sizes = (request.max_tokens, *request.fallback_tokens)
        cache = self._resources.cache
        fitting = [n for n, size in enumerate(sizes) if cache.ever_fits(request, size)]
        if not fitting:
            return Refused(reason=Reason.TOO_LARGE)
        cheapest = min(fitting, key=sizes.__getitem__)
        alone = text_forecast.alone(request, self._resources)
        if not self._meets(alone, request, sizes[cheapest]):
            return self._probe(request, cheapest, alone.first_s, now)
        forecast = self._among(request, jobs, step_left_s, now)
        for variant in fitting:
            if self._meets(forecast, request, sizes[variant]):
                return Taken(variant=variant, predicted_s=forecast.first_s)
        retry_after_s = text_forecast.soonest_end_s(texts_of(jobs), forecast.token_s)
        return self._later(Reason.TOO_LATE, retry_after_s)

    def _among(
        self, request: TextRequest, jobs: Collection[Job], step_left_s: float, now: float
    ) -> TextForecast:
        return text_forecast.among(
            request,
            jobs,
            step_left_s=step_left_s,
            pressure=self._protection.pressure(now),
            resources=self._resources,
        )

    def _meets(self, forecast: TextForecast, request: TextRequest, max_tokens: int) -> bool:
        return forecast.meets(request, max_tokens, headroom=self._options.headroom)

    def _probe(self, request: Request, variant: int, predicted_s: float, now: float) -> Verdict:
        """Too late even by itself, if the estimate is right: one in a while is taken to see."""
        taken_at = self._taken_at.get(_kind(request))
        if taken_at is None or now - taken_at >= self._options.probe_every_s:
            return Taken(variant=variant, predicted_s=predicted_s)
        return Refused(reason=Reason.TOO_LATE)

    def _backlog_s(self, jobs: Collection[Job]) -> float:
        """What all of them need, one after the other."""
        texts = texts_of(jobs)
        return (
            self._resources.items_s(items_of(tails_of(jobs)))
            + text_forecast.prefills_s(texts, self._resources)
            + text_forecast.longest_end_s(texts, self._resources)
        )

    def _later(self, reason: Reason, retry_after_s: float) -> Refused:
        return Refused(reason=reason, retry_after_s=max(retry_after_s, self._options.least_retry_s))


def _forecast(end_s: float, alone_s: float) -> Forecast:
    return Forecast(queue_s=max(0.0, end_s - alone_s), run_s=alone_s)


def _kind(request: Request) -> Hashable:
    return request.chain if isinstance(request, TailRequest) else request.model
