"""When a text's tokens would come, if it were taken.

While tails are expected no iteration is longer than they can wait, and each spends what the weights
of a language model cost on itself. Of the rest, decodes take what keeps their promise and tails
what they took lately; what is left goes to prompts:

    first token = running iteration + one iteration's own cost
                + prompts before it and its own / (rest - decodes / time between tokens - tails)
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headtail_cloud.core.job import Job, TextJob
from headtail_cloud.core.protection import Pressure
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
        first_s=resources.estimate(_own_prefill(request, resources)),
        token_s=resources.estimate(_round(request, (), resources.max_batch)),
        tbt_s=request.tbt_s,
    )


def among(
    request: TextRequest,
    jobs: Iterable[Job],
    *,
    step_left_s: float,
    pressure: Pressure,
    resources: Resources,
) -> TextForecast:
    """With all that is here."""
    jobs = list(jobs)
    texts = texts_of(jobs)
    tbt_s = min([request.tbt_s, *(job.request.tbt_s for job in texts)])
    run_s = resources.costs.text_run_s
    length_s = min(pressure.longest_s, resources.options.longest_step_s)
    room_s = (min(length_s, tbt_s) if texts else length_s) - run_s

    decodes = _round(request, texts, resources.max_batch)
    decodes_s = max(0.0, resources.estimate(decodes) - run_s)
    iterations = _iterations(decodes_s, decodes.decodes, room_s)
    token_s = (decodes_s + iterations * run_s) / (1 - pressure.share)

    prompts = [_own_prefill(request, resources), *_prefills(texts)]
    prompts_s = sum(max(0.0, resources.estimate(work) - run_s) for work in prompts)
    # The smallest chunk fits any iteration.
    tokens = sum(work.prefill_tokens for work in prompts)
    room_s = max(room_s, prompts_s * min(1.0, resources.options.smallest_chunk / tokens))
    work_s = prompts_s + resources.items_s(items_of(tails_of(jobs)))
    first_s = step_left_s + run_s
    if work_s > 0:
        left = room_s / (room_s + run_s) - decodes_s / tbt_s - pressure.share
        first_s += work_s / left if left > 0 else math.inf
    if len(texts) >= resources.max_batch:
        first_s += soonest_end_s(texts, token_s)
    return TextForecast(first_s=first_s, token_s=token_s, tbt_s=tbt_s)


def texts_of(jobs: Iterable[Job]) -> list[TextJob]:
    """The texts among them."""
    return [job for job in jobs if isinstance(job, TextJob)]


def prefills_s(texts: Iterable[TextJob], resources: Resources) -> float:
    """What their prompts still need, after the running iteration."""
    return sum(map(resources.estimate, _prefills(texts)))


def soonest_end_s(texts: Sequence[TextJob], token_s: float) -> float:
    """When the first of them has said all it may; 0 with none."""
    return min((job.max_tokens - job.ran for job in texts), default=0) * token_s


def longest_end_s(texts: Sequence[TextJob], resources: Resources) -> float:
    """When the last of them has, prompts not counted; 0 with none."""
    longest = max((job.max_tokens - job.ran for job in texts), default=0)
    context = sum(len(job.tokens) for job in texts)
    decodes = Work(decodes=len(texts), context_tokens=context)
    return longest * resources.estimate(decodes) if longest else 0.0


def _prefills(texts: Iterable[TextJob]) -> list[Work]:
    return [
        chunk_work(job.computed + job.in_flight, job.remaining - job.in_flight, last=True)
        for job in texts
        if not job.decoding and job.remaining > job.in_flight
    ]


def _own_prefill(request: TextRequest, resources: Resources) -> Work:
    hit = resources.cache.prefix_hit(request)
    return chunk_work(hit, len(request.prompt) - hit, last=True)


def _round(request: TextRequest, texts: Iterable[TextJob], at_once: int) -> Work:
    """One token of each, when all are decoding."""
    others = sorted((len(job.tokens) for job in texts), reverse=True)[: at_once - 1]
    context = sum(others) + len(request.prompt)
    return Work(decodes=len(others) + 1, context_tokens=context)


def _iterations(decodes_s: float, decodes: int, room_s: float) -> int:
    """How many it takes to decode that much, with that much room in each; at least one decode fits
    in any."""
    room_s = max(room_s, decodes_s / decodes)
    return max(1, math.ceil(decodes_s / room_s)) if room_s > 0 else 1
