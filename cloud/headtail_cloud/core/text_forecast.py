"""When a text's tokens would come, if it were taken."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headtail_cloud.core.job import Job, TextJob
from headtail_cloud.core.request import TextRequest
from headtail_cloud.core.resources import Resources
from headtail_cloud.core.tail_forecast import items_of, tails_of
from headtail_cloud.core.work import Work, chunk_work


@dataclass(frozen=True, slots=True, kw_only=True)
class TextForecast:
    """`first_s`: from now to the first token; `token_s`: to each further one, which must keep the
    tightest promise of all that decode, `tbt_s`."""

    first_s: float
    token_s: float
    tbt_s: float

    def meets(self, request: TextRequest, max_tokens: int, *, headroom: float) -> bool:
        """Whether that keeps, within that share of them, the times that were promised."""
        whole_s = self.first_s + (max_tokens - 1) * self.token_s
        return (
            self.token_s <= self.tbt_s * headroom
            and self.first_s <= request.ttft_s * headroom
            and (request.deadline_s is None or whole_s <= request.deadline_s * headroom)
        )


def alone(request: TextRequest, resources: Resources) -> TextForecast:
    """On an idle engine."""
    return TextForecast(
        first_s=_own_prefill_s(request, resources),
        token_s=_token_s(request, (), resources),
        tbt_s=request.tbt_s,
    )


def among(
    request: TextRequest, jobs: Iterable[Job], *, step_left_s: float, resources: Resources
) -> TextForecast:
    """With all that is here: prefills get the share of the engine that decodes leave."""
    jobs = list(jobs)
    texts = texts_of(jobs)
    token_s = _token_s(request, texts, resources)
    tbt_s = min([request.tbt_s, *(job.request.tbt_s for job in texts)])
    left = 1 - token_s / tbt_s
    work_s = prefills_s(texts, resources) + resources.items_s(items_of(tails_of(jobs)))
    if len(texts) >= resources.max_batch:
        work_s += soonest_end_s(texts, token_s)
    work_s += _own_prefill_s(request, resources)
    first_s = step_left_s + work_s / left if left > 0 else float("inf")
    return TextForecast(first_s=first_s, token_s=token_s, tbt_s=tbt_s)


def texts_of(jobs: Iterable[Job]) -> list[TextJob]:
    """The texts among them."""
    return [job for job in jobs if isinstance(job, TextJob)]


def prefills_s(texts: Iterable[TextJob], resources: Resources) -> float:
    """What their prompts still need, after the running iteration."""
    todo = (
        chunk_work(job.computed + job.in_flight, job.remaining - job.in_flight)
        for job in texts
        if not job.decoding and job.remaining > job.in_flight
    )
    return sum(map(resources.estimate, todo))


def soonest_end_s(texts: Sequence[TextJob], token_s: float) -> float:
    """When the first of them has said all it may; 0 with none."""
    return min((job.max_tokens - job.ran for job in texts), default=0) * token_s


def longest_end_s(texts: Sequence[TextJob], resources: Resources) -> float:
    """When the last of them has, prompts not counted; 0 with none."""
    longest = max((job.max_tokens - job.ran for job in texts), default=0)
    context = sum(len(job.tokens) for job in texts)
    decodes = Work(decodes=len(texts), context_tokens=context)
    return longest * resources.estimate(decodes) if longest else 0.0


def _own_prefill_s(request: TextRequest, resources: Resources) -> float:
    hit = resources.cache.prefix_hit(request)
    return resources.estimate(chunk_work(hit, len(request.prompt) - hit))


def _token_s(request: TextRequest, texts: Iterable[TextJob], resources: Resources) -> float:
    """One token of each, when all are decoding."""
    others = sorted((len(job.tokens) for job in texts), reverse=True)
    others = others[: resources.max_batch - 1]
    context = sum(others) + len(request.prompt)
    return resources.estimate(Work(decodes=len(others) + 1, context_tokens=context))
