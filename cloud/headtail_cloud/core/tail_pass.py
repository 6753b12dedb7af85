"""Whether waiting tails get an iteration by themselves, before one that computes texts.

A tail that has waited leaves little time to the iteration that it is part of, and one with texts
spends `CostModel.text_run_s` of it on itself, however short it is. By themselves the tails are done
at once, and the texts after them get an iteration of full length. The larger share of time that is
spent on tokens decides:

    together    (tightest slack - run - tails) / tightest slack
    apart       (full length - run) / (full length + the tails' iteration)
"""

from collections import Counter
from collections.abc import Sequence

from headtail_cloud.core.job import TailJob, TextJob
from headtail_cloud.core.resources import Resources
from headtail_cloud.core.work import Work, chunk_work


def is_worth_it(
    tails: Sequence[TailJob],
    texts: Sequence[TextJob],
    *,
    together_s: float,
    full_s: float,
    resources: Resources,
) -> bool:
    """`together_s` and `full_s`: how long an iteration may take with these tails, and without."""
    if not tails or not texts or together_s >= full_s:
        return False
    run_s = resources.costs.text_run_s
    wanted_s = resources.estimate(_wanted(texts, resources.max_batch))
    items = Counter(job.segment for job in tails)
    both_s = resources.estimate(Work(decodes=1, items=items))
    tails_s = resources.estimate(Work(items=items))
    beside_s = both_s - resources.estimate(Work(decodes=1))
    if wanted_s + beside_s <= together_s:
        return False
    length_s = min(full_s, wanted_s)
    together = (together_s - run_s - beside_s) / together_s
    apart = (length_s - run_s) / (length_s + tails_s)
    return apart > together


def _wanted(texts: Sequence[TextJob], at_once: int) -> Work:
    """All that could be computed of them now."""
    work = Work()
    for job in texts[:at_once]:
        if job.decoding:
            work = work.plus(Work(decodes=1, context_tokens=job.computed))
        else:
            work = work.plus(chunk_work(job.computed, job.remaining, last=True))
    return work
