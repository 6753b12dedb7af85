"""Batches of jobs at several cuts: who joins, who is not made late, what is predicted."""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headtail_edge.batcher import Batch, Batcher
from headtail_edge.costs import Costs
from headtail_edge.mixing import Hop, MixedCuts

LATE = Hop("early-late", 2.0, "late", 1.0)
ASIDE = Hop("aside-late", 1.0, "late", 1.0)
TAILS = {"early": (3.0, (LATE,)), "aside": (2.0, (ASIDE,)), "late": (1.0, ()), "other": (1.0, ())}
FIXED_S, SEGMENT_S, EACH_S = 0.1, 0.02, 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    id: int
    key: str = "late"
    deadline_at: float = 60.0
    session: bytes = b"a"
    arrived_at: float = 0.0
    codec: str = "raw"
    flow: str = "cam"
    weight: float = 1.0
    quota: int = 1000
    alone: bool = False

    @property
    def gmacs(self) -> float:
        return TAILS[self.key][0]

    @property
    def hops(self) -> tuple[Hop, ...]:
        return TAILS[self.key][1]


def costs() -> Costs:
    """A run of a tail costs 100 ms, of a segment 20 ms, and every 1e9 multiply-adds 10 ms."""
    known = Costs()
    for jobs in (1, 2, 4) * 20:
        for key, (gmacs, hops) in TAILS.items():
            known.computed(key, jobs, FIXED_S + EACH_S * gmacs * jobs, gmacs=gmacs, now=0.0)
            for hop in hops:
                known.passed(hop.key, jobs, SEGMENT_S + EACH_S * hop.gmacs * jobs, now=0.0)
    return known


KNOWN = costs()
MIXED_S = (SEGMENT_S + 2 * EACH_S) + (FIXED_S + 2 * EACH_S)
"""One job at `early` and one at `late` together; apart they take 240 ms."""


def batcher(
    mixed_cuts: MixedCuts = "auto", max_batch: int = 4, slack_s: float = 60.0
) -> Batcher[Errand]:
    return Batcher(
        max_batch=max_batch,
        queue_limit=100,
        costs=KNOWN,
        patience_s=1e6,
        slack_s=slack_s,
        mixed_cuts=mixed_cuts,
    )


def fill(waiting: Batcher[Errand], *jobs: Errand) -> Batcher[Errand]:
    for job in jobs:
        waiting.add(job)
    return waiting


def taken(waiting: Batcher[Errand], idle: int = 1) -> tuple[str, list[int]]:
    batch = waiting.next_batch(0.0, idle)
    assert batch is not None
    return str(batch.key), [job.id for job in batch.jobs]


def test_jobs_at_an_earlier_cut_join_those_at_a_later_one() -> None:
    waiting = fill(
        batcher(),
        Errand(id=1, key="early", deadline_at=9.0),
        Errand(id=2, key="late", deadline_at=8.0),
        Errand(id=3, key="early", deadline_at=7.0),
    )
    batch = waiting.next_batch(0.0, 1)
    assert isinstance(batch, Batch)
    assert (batch.key, [job.id for job in batch.jobs]) == ("late", [3, 1, 2])
    expected_s = (SEGMENT_S + 4 * EACH_S) + (FIXED_S + 3 * EACH_S)
    assert batch.expected_s == pytest.approx(expected_s, rel=0.03)
    assert len(waiting) == 0


def test_two_cuts_meet_behind_both() -> None:
    waiting = fill(batcher(), Errand(id=1, key="aside"), Errand(id=2, key="early"))
    assert taken(waiting) == ("late", [1, 2])


def test_without_the_switch_every_cut_is_for_itself() -> None:
    waiting = fill(batcher("never"), Errand(id=1, key="early"), Errand(id=2, key="late"))
    assert [taken(waiting), taken(waiting)] == [("early", [1]), ("late", [2])]


def test_another_idle_worker_takes_the_other_cut() -> None:
    waiting = fill(batcher(), Errand(id=1, key="early"), Errand(id=2, key="late"))
    assert taken(waiting, idle=2) == ("early", [1])


def test_a_batch_that_would_have_to_be_computed_all_the_same_lends_nobody() -> None:
    waiting = fill(batcher(), *(Errand(id=i, key="early") for i in (1, 2, 3)))
    fill(waiting, *(Errand(id=i, deadline_at=1.0) for i in (11, 12)))
    # One more than there is room for: the batch of three would only become one of one.
    assert taken(waiting) == ("late", [11, 12])


def test_only_the_last_batch_of_a_long_line_joins() -> None:
    waiting = fill(batcher(), *(Errand(id=i, key="early") for i in range(1, 6)))
    fill(waiting, *(Errand(id=i, deadline_at=1.0) for i in (11, 12)))
    assert taken(waiting) == ("late", [11, 12, 1])
    assert taken(waiting) == ("early", [2, 3, 4, 5])


def test_a_full_batch_goes_by_itself() -> None:
    waiting = fill(batcher(), *(Errand(id=i) for i in range(1, 5)), Errand(id=9, key="early"))
    assert taken(waiting) == ("late", [1, 2, 3, 4])


def test_who_would_be_in_time_alone_is_not_made_late_by_others() -> None:
    alone_s = FIXED_S + EACH_S
    for deadline_at, together in ((1.1 * MIXED_S + 0.01, True), (1.1 * MIXED_S - 0.01, False)):
        assert deadline_at > alone_s
        waiting = fill(batcher(), Errand(id=1, deadline_at=deadline_at), Errand(id=2, key="early"))
        assert taken(waiting)[1] == ([1, 2] if together else [1])
    # Who is late anyway keeps nobody from sharing.
    waiting = fill(batcher(), Errand(id=1, deadline_at=alone_s / 2), Errand(id=2, key="early"))
    assert taken(waiting)[1] == [1, 2]


def test_another_bundle_s_job_that_is_due_before_is_not_made_late_by_those_who_join() -> None:
    for deadline_at, together in ((0.35, True), (0.25, False), (60.0, True)):
        waiting = fill(
            batcher(),
            Errand(id=1, deadline_at=0.2),
            Errand(id=2, key="other", deadline_at=deadline_at),
            Errand(id=3, key="early", deadline_at=50.0),
        )
        assert taken(waiting)[1] == ([1, 3] if together else [1])


def test_a_job_that_a_worker_died_with_is_not_mixed() -> None:
    waiting = fill(batcher(), Errand(id=1, key="early", alone=True), Errand(id=2, key="late"))
    assert [taken(waiting), taken(waiting)] == [("early", [1]), ("late", [2])]
    waiting = fill(batcher(), Errand(id=1, key="late"), Errand(id=2, key="early", alone=True))
    assert [taken(waiting), taken(waiting)] == [("late", [1]), ("early", [2])]


def test_who_joins_pays_for_the_segment_too() -> None:
    waiting = fill(
        batcher(slack_s=0.0),
        Errand(id=1, key="early", flow="early"),
        Errand(id=2, key="late", flow="late"),
        Errand(id=3, key="other", flow="early", deadline_at=70.0),
        Errand(id=4, key="other", flow="late", deadline_at=80.0),
    )
    assert taken(waiting) == ("late", [1, 2])
    assert taken(waiting) == ("other", [4, 3])


def test_the_work_that_waits_counts_what_will_be_shared() -> None:
    waiting = fill(batcher(), Errand(id=1, key="early"), Errand(id=2, key="late"))
    assert waiting.work_s() == pytest.approx(MIXED_S, rel=0.03)
    apart = fill(batcher("never"), Errand(id=1, key="early"), Errand(id=2, key="late"))
    assert apart.work_s() == pytest.approx(2 * FIXED_S + 4 * EACH_S, rel=0.03)


def test_a_job_s_batch_is_the_one_it_would_join_and_is_not_before_it() -> None:
    waiting = fill(batcher(), Errand(id=1, key="early"))
    newcomer = Errand(id=2, key="late", deadline_at=99.0)
    forecast = waiting.batch_with(newcomer)
    assert forecast.costs == ("early-late", "late")
    assert forecast.seconds == pytest.approx(MIXED_S, rel=0.03)
    assert waiting.work_before_s(newcomer) == 0.0
    apart = fill(batcher("never"), Errand(id=1, key="early"))
    assert apart.batch_with(newcomer).seconds == pytest.approx(FIXED_S + EACH_S, rel=0.03)
    assert apart.work_before_s(newcomer) == pytest.approx(FIXED_S + 3 * EACH_S, rel=0.03)


@settings(max_examples=80)
@given(
    mixed_cuts=st.sampled_from(("auto", "always", "never")),
    arrivals=st.lists(
        st.tuples(
            st.sampled_from(sorted(TAILS)),
            st.sampled_from(("one", "two")),
            st.floats(0.05, 3.0),
            st.sampled_from((False, False, False, True)),
        ),
        max_size=14,
    ),
    cancelled=st.sets(st.integers(0, 13), max_size=3),
    max_batch=st.integers(1, 5),
    idle=st.integers(1, 2),
)
def test_whatever_is_mixed_each_job_leaves_once(
    mixed_cuts: MixedCuts,
    arrivals: list[tuple[str, str, float, bool]],
    cancelled: set[int],
    max_batch: int,
    idle: int,
) -> None:
    waiting = batcher(mixed_cuts, max_batch, slack_s=0.05)
    for number, (key, flow, deadline_at, alone) in enumerate(arrivals):
        waiting.add(Errand(id=number, key=key, flow=flow, deadline_at=deadline_at, alone=alone))
    left = [job.id for number in cancelled if (job := waiting.cancel(b"a", number))]
    now = 0.0
    while len(waiting):
        left += [job.id for job in waiting.expire(now)]
        work_s = waiting.work_s()
        batch = waiting.next_batch(now, idle)
        if batch is None:
            break
        keys = {job.key for job in batch.jobs}
        assert 1 <= len(batch.jobs) <= max_batch
        assert len(batch.jobs) == 1 or not any(job.alone for job in batch.jobs)
        if len(keys) > 1:
            assert (mixed_cuts != "never", idle, batch.key) == (True, 1, "late")
            assert "other" not in keys
        else:
            assert keys == {batch.key}
        assert waiting.work_s() <= work_s + 1e-9
        left += [job.id for job in batch.jobs]
        now += batch.expected_s
    assert sorted(left) == list(range(len(arrivals)))
