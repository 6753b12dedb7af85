"""What the cost model makes of measurements: lines, outliers, changes, and cuts never measured."""

import numpy as np
import pytest

from headtail_edge.costs import Costs, LineCost


def taught(line: LineCost, rng: np.random.Generator, *, batches: int, speed: float = 1.0) -> None:
    """Batches of 1 to 8 at 20 ms + 5 ms each, give or take 3 %."""
    for _ in range(batches):
        jobs = int(rng.integers(1, 9))
        line.observe(jobs, (0.02 + 0.005 * jobs) * speed * rng.normal(1.0, 0.03), now=0.0)


def test_a_line_is_found_through_batches_of_several_sizes() -> None:
    line = LineCost()
    taught(line, np.random.default_rng(1), batches=100)
    assert line.seconds(1) == pytest.approx(0.025, rel=0.05)
    assert line.seconds(8) == pytest.approx(0.060, rel=0.05)


def test_while_all_batches_were_of_one_size_costs_are_in_proportion() -> None:
    line = LineCost()
    for _ in range(20):
        line.observe(2, 0.04, now=0.0)
    assert line.seconds(2) == pytest.approx(0.04, rel=0.01)
    assert line.seconds(4) == pytest.approx(0.08, rel=0.02)


@pytest.mark.parametrize("seed", range(5))
def test_outliers_move_it_little(seed: int) -> None:
    rng, line = np.random.default_rng(seed), LineCost()
    for _ in range(30):
        taught(line, rng, batches=9)
        line.observe(int(rng.integers(1, 9)), 3.0, now=0.0)
    assert line.seconds(4) == pytest.approx(0.040, rel=0.2)


@pytest.mark.parametrize("speed", [0.2, 3.0, 10.0])
def test_a_machine_that_changes_its_speed_is_followed(speed: float) -> None:
    rng, line = np.random.default_rng(2), LineCost()
    taught(line, rng, batches=200)
    taught(line, rng, batches=100, speed=speed)
    assert line.seconds(4) == pytest.approx(0.040 * speed, rel=0.1)


def test_a_first_batch_that_was_slow_is_soon_forgotten() -> None:
    rng, line = np.random.default_rng(3), LineCost()
    line.observe(1, 1.5, now=0.0)
    taught(line, rng, batches=40)
    assert line.seconds(4) == pytest.approx(0.040, rel=0.2)


def test_neither_part_of_a_line_is_negative() -> None:
    falling, steep = LineCost(), LineCost()
    for jobs, seconds in ((1, 0.08), (8, 0.04)) * 10:
        falling.observe(jobs, seconds, now=0.0)
    for jobs, seconds in ((4, 0.01), (8, 0.04)) * 10:
        steep.observe(jobs, seconds, now=0.0)
    assert falling.each_s == 0.0
    assert falling.fixed_s > 0
    assert steep.fixed_s == 0.0
    assert steep.seconds(1) > 0


def test_before_anything_was_measured_there_is_a_guess() -> None:
    costs = Costs()
    assert not costs.measured
    assert costs.batch_s("late", 3, gmacs=1.0) == pytest.approx(0.15)
    assert costs.decode_s("late", "rans") == 0.0
    assert costs.age_s("late", 5.0) == float("inf")


def test_a_cut_that_was_never_computed_costs_what_its_arithmetic_would_elsewhere() -> None:
    costs = Costs()
    for jobs in (1, 2, 4) * 20:
        costs.computed("early", jobs, 0.01 + 0.1 * jobs, gmacs=2.0, now=1.0)
    assert costs.batch_s("late", 1, gmacs=0.5) == pytest.approx(0.01 + 0.025, rel=0.05)
    assert costs.age_s("early", 4.0) == 3.0
    assert costs.age_s("late", 4.0) == float("inf")


def test_decoding_is_measured_by_codec() -> None:
    costs = Costs()
    for _ in range(10):
        costs.decoded("late", "rans", 0.008, 0.0)
        costs.decoded("late", "q8", 0.001, 0.0)
    assert costs.decode_s("late", "rans") == pytest.approx(0.008, rel=0.02)
    assert costs.decode_s("late", "q8") == pytest.approx(0.001, rel=0.02)


def test_what_is_not_served_any_more_is_forgotten() -> None:
    costs = Costs()
    costs.computed("late", 1, 1.0, gmacs=1.0, now=0.0)
    costs.decoded("late", "q8", 1.0, 0.0)
    costs.keep(lambda key: key != "late")
    assert costs.age_s("late", 0.0) == float("inf")
    assert costs.decode_s("late", "q8") == 0.0


def test_repr_shows_the_lines() -> None:
    costs = Costs()
    costs.computed("late", 2, 1.0, gmacs=1.0, now=0.0)
    assert "each" in repr(costs)


def test_a_segment_never_measured_is_its_share_of_what_the_tail_takes_a_job() -> None:
    costs = Costs()
    assert costs.segment_s("early-late", 2, tail="early", share=0.5) == 0.0
    for jobs in (1, 2, 4) * 20:
        costs.computed("early", jobs, 0.1 + 0.02 * jobs, gmacs=2.0, now=0.0)
    expected_s = 0.5 * 0.02 * 3
    guess_s = costs.segment_s("early-late", 3, tail="early", share=0.5)
    assert guess_s == pytest.approx(expected_s, rel=0.05)


def test_a_segment_is_known_by_its_own_runs_and_says_nothing_of_tails() -> None:
    costs = Costs()
    costs.computed("late", 1, 0.2, gmacs=1.0, now=0.0)
    before_s = costs.batch_s("never computed", 1, gmacs=1.0)
    for jobs in (1, 2) * 20:
        costs.passed("early-late", jobs, 0.5 + 0.1 * jobs, now=1.0)
    assert costs.segment_s("early-late", 2, tail="early", share=0.5) == pytest.approx(0.7, rel=0.05)
    assert costs.batch_s("never computed", 1, gmacs=1.0) == before_s
    assert costs.age_s("early-late", 3.0) == 2.0
    costs.keep(lambda key: key != "early-late")
    assert costs.age_s("early-late", 3.0) == float("inf")


def test_what_was_measured_long_before_all_else_is_not_current() -> None:
    costs = Costs()
    costs.computed("early", 1, 0.2, gmacs=2.0, now=0.0)
    for _ in range(3):
        assert not costs.is_known("early-late")
        costs.passed("early-late", 1, 5.0, now=0.0)
    assert costs.is_known("early-late")
    assert costs.is_current("early")
    assert costs.segment_s("early-late", 1, tail="early", share=0.5) == pytest.approx(5.0, rel=0.01)
    costs.computed("late", 1, 0.1, gmacs=1.0, now=60.0)
    assert not costs.is_current("early")
    assert costs.is_current("late")
    assert costs.segment_s("early-late", 1, tail="early", share=0.5) < 0.2
    assert not costs.is_current("never computed")
