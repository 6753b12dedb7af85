"""The mixed load of `headtail bench cloud`: what comes, and whether it was in time."""

from dataclasses import replace

import pytest

from headtail.bench.cloud.jumping_clock import Step, served
from headtail.bench.cloud.mix import End, Mix, Share, Split, by_tokens, halves, rules, tell
from headtail.bench.report import Report
from headtail_cloud.core.engine import Capacity
from headtail_cloud.core.request import Segment, TextRequest
from headtail_cloud.core.task import work_of
from headtail_cloud.engines.modelled import ModelledEngine, Prices

CAPACITY = Capacity(max_batch=16, blocks=512, block_tokens=16)
FREE = Prices(step_s=1e-6, prefill_s=1e-6, decode_s=1e-6, run_s=1e-6, item_s=1e-6)
MIX = Mix(
    texts_s=2.0,
    tails_s=20.0,
    model="lm",
    segment=Segment("network@1", "tail"),
    prompt_median=40.0,
    answer_median=10.0,
    longest=100,
    ttft_s=1.0,
    tbt_s=0.1,
    tail_s=0.05,
)


def shares(prices: Prices, rule: str = "time budget", *, thinking_s: float = 0.0) -> Share:
    engine = ModelledEngine(limits=CAPACITY, prices=prices)
    step: Step = lambda tasks: (engine.step(tasks), prices.of(work_of(tasks)))  # noqa: E731
    spent = iter(range(1_000_000))
    ended = served(
        MIX.arrivals(4.0, 1),
        rules(prices.of, 0.1)[rule],
        engine,
        step,
        spent_s=lambda: thinking_s * next(spent),
    )
    return Share.of(ended)


def test_arrivals_are_the_same_for_a_seed() -> None:
    assert MIX.arrivals(4.0, 1) == MIX.arrivals(4.0, 1)
    assert MIX.arrivals(4.0, 1) != MIX.arrivals(4.0, 2)


def test_arrivals_keep_to_their_limits() -> None:
    tails, texts = halves(MIX.arrivals(20.0, 3))
    assert 300 < len(tails) < 500
    assert 20 < len(texts) < 65
    for at, request in texts:
        assert isinstance(request, TextRequest)
        assert 0 <= at < 20
        assert 8 <= len(request.prompt) <= 100
        assert 8 <= request.max_tokens <= 100


def test_an_engine_that_costs_nothing_keeps_every_time() -> None:
    all_of_them = Split(in_time=1.0, late=0.0, refused=0.0)
    assert shares(FREE) == Share(texts=all_of_them, tails=all_of_them)


def test_one_too_slow_for_its_tails_keeps_none() -> None:
    assert shares(replace(FREE, run_s=0.1)).tails.in_time == 0.0


def test_a_prompt_in_one_piece_is_what_tails_wait_for() -> None:
    prices = Prices(step_s=0.001, prefill_s=0.002, decode_s=0.001, run_s=0.001, item_s=0.0002)
    assert shares(prices).tails.in_time == 1.0
    assert shares(prices, "whole prompts").tails.in_time < 1.0


def test_the_scheduler_s_own_time_counts() -> None:
    assert shares(FREE, thinking_s=0.06).tails.in_time == 0.0


def test_a_mix_without_texts_has_no_share() -> None:
    with pytest.raises(ValueError, match="too short"):
        Share.of({"tail-1": End.IN_TIME})


def test_what_is_refused_is_told_from_what_is_late() -> None:
    ended = {"text-1": End.LATE, "text-2": End.REFUSED, "tail-1": End.IN_TIME, "tail-2": End.LATE}
    share = Share.of(ended)
    assert share.texts == Split(in_time=0.0, late=0.5, refused=0.5)
    assert share.tails == Split(in_time=0.5, late=0.5, refused=0.0)


def test_rules_that_know_no_times_refuse_nothing() -> None:
    slow = Prices(step_s=0.01, prefill_s=0.01, decode_s=0.06, run_s=0.01, item_s=0.01)
    for rule in ("token budget", "whole prompts"):
        split = shares(slow, rule).texts
        assert split.refused == 0.0
        assert split.late > 0.5
    assert shares(slow).texts.refused > 0.0


def test_a_token_budget_is_what_an_engine_computes_between_two_tokens() -> None:
    prices = Prices(step_s=0.002, prefill_s=0.001, decode_s=0.001)
    assert by_tokens(prices.of, 0.1).token_budget == 80  # 90 ms, less 10 of eight decodes
    assert by_tokens(lambda work: 2 * prices.of(work), 0.1).token_budget == 35
    assert by_tokens(prices.of, 0.01).token_budget == 16


def test_targets_are_of_the_time_budget() -> None:
    report = Report("cloud", {})
    good, bad = (
        Share(texts=split, tails=split)
        for split in (
            Split(in_time=1.0, late=0.0, refused=0.0),
            Split(in_time=0.25, late=0.5, refused=0.25),
        )
    )
    runs = {"time budget": [good, good], "token budget": [good, bad], "two halves": [bad, bad]}
    rows = tell(report, runs, suffix="")
    assert rows[3] == ["token budget", "tails", 0.625, 0.25, 0.25, 0.125]
    assert report.figures["llm_slo_halves"] == 0.25
    assert [target.met for target in report.targets] == [True, True]
