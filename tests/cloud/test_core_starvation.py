"""The rule itself, where a text has waited far longer than promised."""

import pytest

from cloud_doubles import SEGMENT, tail, text
from headtail_cloud.core.cost_model import CostModel
from headtail_cloud.core.fairness import FairShare
from headtail_cloud.core.iteration import IterationRule
from headtail_cloud.core.job import TailJob, TextJob
from headtail_cloud.core.kv_cache import KvCache
from headtail_cloud.core.options import SchedulerOptions
from headtail_cloud.core.resources import Resources
from headtail_cloud.engines.modelled import Prices


def first_of_an_iteration(waited_s: float, *, decoding: bool) -> list[str]:
    """Who is in an iteration that one due tail fills; the text was due at once."""
    cache = KvCache(blocks=16, block_tokens=4, spare=0.0)
    shares = FairShare()
    resources = Resources(
        max_batch=4,
        cache=cache,
        shares=shares,
        costs=CostModel(Prices(run_s=0.02, decode_s=0.02, prefill_s=0.02).of),
        options=SchedulerOptions(aging_s=2.0),
    )
    request = text(0, [1, 2, 3], ttft_s=0.001, tbt_s=0.001)
    slow = TextJob(request, 4, number=1, now=0.0, block_tokens=4)
    if decoding:
        assert cache.begin(slow, keep_spare=False)
        cache.computed(slow, 3)
        slow.tokens.append(9)
        slow.last_token_at = 0.0
    due = TailJob(tail(1, deadline_s=0.03), (SEGMENT,), number=2, now=waited_s)
    for job in (slow, due):
        shares.enter(job.tenant)
    draft = IterationRule(resources).form([slow, due], expected_slack_s=9.0, now=waited_s)
    assert draft is not None
    return [task.request_id for task in draft.tasks]


@pytest.mark.parametrize("decoding", [True, False])
def test_due_tails_go_before_a_text(decoding: bool) -> None:
    assert first_of_an_iteration(1.0, decoding=decoding) == ["tail-1"]


@pytest.mark.parametrize("decoding", [True, False])
def test_but_not_for_ever(decoding: bool) -> None:
    assert first_of_an_iteration(2.1, decoding=decoding)[0] == "text-0"
