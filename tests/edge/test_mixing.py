"""Who shares a batch with whom across cuts: where ways meet, and whether it pays."""

import pytest

from headtail_edge.costs import Costs
from headtail_edge.mixing import Group, Hop, MixedCuts, Mixer

MIDDLE = Hop("early-middle", 1.0, "middle", 2.0)
LATE = Hop("middle-late", 1.0, "late", 1.0)
ASIDE = Hop("aside-late", 0.5, "late", 1.0)


def early(jobs: int) -> Group:
    return Group("early", jobs, 3.0, (MIDDLE, LATE))


def middle(jobs: int) -> Group:
    return Group("middle", jobs, 2.0, (LATE,))


def late(jobs: int) -> Group:
    return Group("late", jobs, 1.0)


def aside(jobs: int) -> Group:
    return Group("aside", jobs, 1.5, (ASIDE,))


def other(jobs: int) -> Group:
    return Group("other", jobs, 1.0)


def known(*, fixed_s: float, now: float = 0.0) -> Costs:
    """A machine on which every batch costs `fixed_s` beside 10 ms a job and 1e9 multiply-adds."""
    costs = Costs()
    for jobs in (1, 2, 4) * 20:
        for group in (early(jobs), middle(jobs), late(jobs), aside(jobs), other(jobs)):
            seconds = fixed_s + 0.01 * group.gmacs * jobs
            costs.computed(group.key, jobs, seconds, gmacs=group.gmacs, now=now)
    return costs


def learn(costs: Costs, hop: Hop, *, fixed_s: float, now: float = 0.0) -> None:
    for jobs in (1, 2, 4) * 20:
        costs.passed(hop.key, jobs, fixed_s + 0.01 * hop.gmacs * jobs, now=now)


def mixer(costs: Costs, mixed_cuts: MixedCuts = "auto", max_batch: int = 4) -> Mixer:
    return Mixer(costs=costs, max_batch=max_batch, mixed_cuts=mixed_cuts)


def test_an_earlier_cut_s_jobs_are_computed_up_to_the_later_one_and_join_there() -> None:
    costs = known(fixed_s=0.1)
    learn(costs, MIDDLE, fixed_s=0.02)
    learn(costs, LATE, fixed_s=0.03)
    mix = mixer(costs).mix(late(1), [early(2)])
    assert mix.groups == (late(1), early(2))
    assert (mix.meeting, mix.costs) == ("late", ("early-middle", "middle-late", "late"))
    expected_s = (0.02 + 0.01 * 2) + (0.03 + 0.01 * 2) + (0.1 + 0.01 * 3)
    assert mix.seconds == pytest.approx(expected_s, rel=0.02)
    paid_s = sum(group.jobs * mix.each_s[group.key] for group in mix.groups)
    assert paid_s == pytest.approx(mix.seconds)
    assert mix.each_s["early"] > mix.each_s["late"]


def test_the_earlier_cut_may_lead() -> None:
    mix = mixer(known(fixed_s=0.1)).mix(middle(2), [late(1)])
    assert (mix.meeting, mix.groups) == ("late", (middle(2), late(1)))


def test_a_segment_that_several_pass_is_run_once() -> None:
    costs = known(fixed_s=0.1)
    learn(costs, LATE, fixed_s=0.01)
    mix = mixer(costs).mix(late(1), [middle(1), early(1)])
    assert mix.costs == ("middle-late", "early-middle", "late")
    passed_s = 0.01 + 0.01 * 2
    assert mix.seconds == pytest.approx(passed_s + 0.01 + (0.1 + 0.01 * 3), rel=0.03)


def test_ways_meet_where_nobody_waits() -> None:
    mix = mixer(known(fixed_s=0.1)).mix(aside(1), [early(1)])
    assert (mix.meeting, len(mix.groups)) == ("late", 2)


def test_the_first_place_where_all_ways_meet_is_taken() -> None:
    assert mixer(known(fixed_s=0.1)).mix(early(1), [middle(1)]).meeting == "middle"


@pytest.mark.parametrize("mixed_cuts", ["auto", "always"])
def test_jobs_whose_ways_never_meet_stay_apart(mixed_cuts: MixedCuts) -> None:
    mix = mixer(known(fixed_s=0.1), mixed_cuts).mix(late(1), [other(1)])
    assert (mix.groups, mix.costs) == ((late(1),), ("late",))


def test_a_mixed_batch_is_no_larger_than_any() -> None:
    mix = mixer(known(fixed_s=0.1)).mix(late(2), [middle(3), early(1), aside(1), early(1)])
    assert mix.groups == (late(2), early(1), aside(1))


def test_batches_are_mixed_never_or_always_where_that_is_set() -> None:
    dear, cheap = known(fixed_s=0.0), known(fixed_s=0.1)
    learn(dear, LATE, fixed_s=1.0)
    assert len(mixer(dear, "always").mix(late(1), [middle(1)]).groups) == 2
    assert len(mixer(cheap, "never").mix(late(1), [middle(1)]).groups) == 1
    assert mixer(cheap, "never").saved_s([late(1), middle(1)]) == {}


def test_where_batches_do_not_pay_nothing_is_mixed() -> None:
    costs = known(fixed_s=0.0)
    learn(costs, LATE, fixed_s=0.001)
    assert len(mixer(costs).mix(late(1), [middle(1)]).groups) == 1


def test_a_segment_is_tried_a_few_times_whatever_batches_seem_to_cost() -> None:
    """Of batches of one job each nobody can tell what larger ones would save."""
    costs = known(fixed_s=0.0)
    tried = 0
    while len(mixer(costs).mix(late(1), [middle(1)]).groups) == 2:
        costs.passed(LATE.key, 1, 0.02, now=0.0)
        tried += 1
    assert tried == 3


def test_a_segment_that_was_found_to_cost_more_than_it_saves_is_left_alone() -> None:
    costs = known(fixed_s=0.05)
    # Unknown, it is tried.
    assert len(mixer(costs).mix(late(1), [middle(1)]).groups) == 2
    learn(costs, LATE, fixed_s=0.08)
    assert len(mixer(costs).mix(late(1), [middle(1)]).groups) == 1


def test_after_a_while_it_is_tried_again() -> None:
    costs = known(fixed_s=0.05)
    learn(costs, LATE, fixed_s=0.08)
    for jobs in (1, 2) * 20:
        costs.computed("late", jobs, 0.05 + 0.01 * jobs, gmacs=1.0, now=60.0)
        costs.computed("middle", jobs, 0.05 + 0.02 * jobs, gmacs=2.0, now=60.0)
    assert len(mixer(costs).mix(late(1), [middle(1)]).groups) == 2


def test_what_was_not_computed_apart_for_long_is_so_that_both_stay_known() -> None:
    costs = known(fixed_s=0.1)
    assert len(mixer(costs).mix(late(1), [middle(1)]).groups) == 2
    costs.computed("late", 1, 0.11, gmacs=1.0, now=11.0)
    assert len(mixer(costs).mix(late(1), [middle(1)]).groups) == 1


def test_before_anything_was_measured_nothing_is_mixed() -> None:
    assert len(mixer(Costs()).mix(late(1), [middle(1)]).groups) == 1


def test_who_does_not_suit_is_left_out_and_the_next_is_tried() -> None:
    mix = mixer(known(fixed_s=0.1)).mix(
        late(1), [middle(1), aside(1)], suits=lambda mix: mix.groups[-1].key != "middle"
    )
    assert mix.groups == (late(1), aside(1))


def test_what_is_saved_is_the_difference_to_separate_batches() -> None:
    costs = known(fixed_s=0.1)
    learn(costs, LATE, fixed_s=0.03)
    saved_s = mixer(costs).saved_s([late(1), other(2), middle(2)])
    apart_s = (0.1 + 0.01) + (0.1 + 0.02 * 2)
    mixed_s = (0.03 + 0.01 * 2) + (0.1 + 0.01 * 3)
    assert sum(saved_s.values()) == pytest.approx(apart_s - mixed_s, rel=0.03)
    assert "other" not in saved_s
    assert min(saved_s["late"], saved_s["middle"]) > 0
