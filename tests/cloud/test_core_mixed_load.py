"""Texts and tails on one engine: the time budget against a token budget (Sarathi-Serve's rule).

A 7B model's prices on one accelerator, roughly: 12 ms an iteration, 0.2 ms a prompt token; tails of
1.5 + 0.25 n ms with 50 ms to be done in.
"""

import random

from cloud_doubles import Desk, tail, text
from headtail_cloud.core.engine import Capacity
from headtail_cloud.core.options import SchedulerOptions
from headtail_cloud.engines.modelled import Prices

PRICES = Prices(step_s=0.012, prefill_s=0.0002, decode_s=0.0003, run_s=0.0015, item_s=0.00025)
TOKENS_ONLY = SchedulerOptions(
    token_budget=512, longest_step_s=100.0, shortest_budget_s=100.0, max_waiting_per_tenant=512
)
SECONDS = 4.0


def served(options: SchedulerOptions) -> tuple[float, float]:
    """The share of tails, and of texts, that were answered with every promised time kept."""
    draw = random.Random(7)
    capacity = Capacity(max_batch=64, blocks=4000, block_tokens=16)
    desk = Desk(capacity=capacity, options=options, prices=PRICES)
    when, number = 0.0, 0
    while (when := when + draw.expovariate(60)) < SECONDS:
        number += 1
        desk.arrive(when, tail(number, deadline_s=0.05, tenant="edge"))
    when = 0.0
    while (when := when + draw.expovariate(1.5)) < SECONDS:
        number += 1
        prompt = range(number * 1000, number * 1000 + draw.randrange(300, 1500))
        desk.arrive(when, text(number, prompt, max_tokens=30, ttft_s=2.0, tbt_s=0.1, tenant="chat"))
    desk.run()
    ends = {**desk.finished, **desk.rejected}
    shares = []
    for kind in ("tail", "text"):
        ids = [name for name in ends if name.startswith(kind)]
        kept = [name for name in ids if name in desk.finished and desk.finished[name].on_time]
        shares.append(len(kept) / len(ids))
    return shares[0], shares[1]


def test_a_time_budget_keeps_every_tail_where_a_token_budget_does_not() -> None:
    tails, texts = served(SchedulerOptions())
    tails_by_tokens, _ = served(TOKENS_ONLY)
    assert tails == 1.0
    assert texts >= 0.9
    assert tails_by_tokens < 0.97
