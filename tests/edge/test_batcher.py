"""The batcher: order, batch sizes, refusals, and that every job leaves exactly once."""

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headtail_edge.batcher import Batch, Batcher
from headtail_edge.costs import Costs
from headtail_edge.mixing import Hop


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    id: int
    deadline_at: float
    key: str = "late"
    session: bytes = b"a"
    arrived_at: float = 0.0
    codec: str = "raw"
    gmacs: float = 1.0
    hops: tuple[Hop, ...] = ()
    flow: str = "cam"
    weight: float = 1.0
    quota: int = 1000
    alone: bool = False


def batcher(**settings: Any) -> Batcher[Errand]:
    sizes = {"max_batch": 4, "queue_limit": 8, "patience_s": 1e6}
    return Batcher(**{**sizes, "costs": Costs(), **settings})


def ids(batch: Batch[Errand] | None) -> list[int]:
    return [job.id for job in batch.jobs] if batch is not None else []


def fill(waiting: Batcher[Errand], *jobs: Errand) -> None:
    for job in jobs:
        assert waiting.has_room(job)
        waiting.add(job)


def test_an_idle_worker_gets_what_there_is_at_once() -> None:
    waiting = batcher()
    fill(waiting, Errand(id=1, deadline_at=9.0))
    assert ids(waiting.next_batch(0.0, 1)) == [1]
    assert waiting.next_batch(0.0, 1) is None
    assert len(waiting) == 0


def test_the_earliest_deadline_goes_first() -> None:
    waiting = batcher()
    fill(waiting, *(Errand(id=i, deadline_at=10.0 - i) for i in (1, 3, 2)))
    assert ids(waiting.next_batch(0.0, 1)) == [3, 2, 1]


def test_equal_deadlines_go_in_order_of_arrival() -> None:
    waiting = batcher()
    fill(waiting, *(Errand(id=i, deadline_at=5.0) for i in (7, 3, 9, 1)))
    assert ids(waiting.next_batch(0.0, 1)) == [7, 3, 9, 1]


def test_a_batch_has_one_key_and_the_line_with_the_first_deadline_goes_first() -> None:
    waiting = batcher()
    fill(
        waiting,
        Errand(id=1, key="early", deadline_at=5.0),
        Errand(id=2, key="early", deadline_at=6.0),
        Errand(id=3, key="late", deadline_at=4.0),
        Errand(id=4, key="late", deadline_at=9.0),
    )
    first = waiting.next_batch(0.0, 1)
    assert first is not None
    assert (first.key, ids(first)) == ("late", [3, 4])
    assert ids(waiting.next_batch(0.0, 1)) == [1, 2]


def test_between_lines_too_arrival_breaks_the_tie() -> None:
    waiting = batcher()
    fill(
        waiting,
        Errand(id=1, key="b", deadline_at=5.0),
        Errand(id=2, key="a", deadline_at=5.0),
    )
    assert ids(waiting.next_batch(0.0, 1)) == [1]


def test_a_busy_line_does_not_starve_a_quiet_one() -> None:
    waiting = batcher(max_batch=1, queue_limit=100)
    fill(waiting, Errand(id=1, key="quiet", deadline_at=3.0))
    served = []
    for step in range(10):
        fill(waiting, Errand(id=100 + step, key="busy", deadline_at=step + 1.5))
        served += ids(waiting.next_batch(float(step), 1))
    # By its deadline nothing that came later could be more urgent.
    assert served.index(1) <= 2


def test_a_batch_has_at_most_max_batch_jobs() -> None:
    waiting = batcher(max_batch=2)
    fill(waiting, *(Errand(id=i, deadline_at=5.0) for i in range(1, 6)))
    assert [len(ids(waiting.next_batch(0.0, 1))) for _ in range(4)] == [2, 2, 1, 0]


def test_idle_workers_share_a_line() -> None:
    waiting = batcher()
    fill(waiting, *(Errand(id=i, deadline_at=5.0) for i in range(1, 6)))
    assert ids(waiting.next_batch(0.0, 2)) == [1, 2, 3]
    assert ids(waiting.next_batch(0.0, 1)) == [4, 5]


def test_an_expired_job_leaves_by_expire_and_the_others_are_batched() -> None:
    waiting = batcher()
    fill(waiting, Errand(id=1, deadline_at=1.0), Errand(id=2, deadline_at=2.0))
    assert waiting.next_timer() == 1.0
    assert [job.id for job in waiting.expire(1.0)] == [1]
    assert ids(waiting.next_batch(1.0, 1)) == [2]
    assert waiting.expire(9.0) == []
    assert waiting.next_timer() is None


def test_the_deadline_itself_is_too_late() -> None:
    waiting = batcher()
    fill(waiting, Errand(id=1, deadline_at=1.0))
    assert waiting.expire(0.999) == []
    assert len(waiting.expire(1.0)) == 1


def test_cancel_takes_out_one_job_once() -> None:
    waiting = batcher()
    fill(waiting, Errand(id=1, deadline_at=1.0), Errand(id=1, session=b"b", deadline_at=1.0))
    cancelled = waiting.cancel(b"b", 1)
    assert cancelled is not None
    assert cancelled.session == b"b"
    assert waiting.cancel(b"b", 1) is None
    assert waiting.cancel(b"nobody", 1) is None
    assert ids(waiting.next_batch(0.0, 1)) == [1]


def test_a_session_is_dropped_with_all_its_jobs() -> None:
    waiting = batcher()
    fill(
        waiting,
        Errand(id=1, key="early", deadline_at=1.0),
        Errand(id=2, key="late", deadline_at=1.0),
        Errand(id=3, session=b"b", deadline_at=1.0),
    )
    assert sorted(job.id for job in waiting.drop_session(b"a")) == [1, 2]
    assert waiting.drop_session(b"a") == []
    assert [job.id for job in waiting.drop_all()] == [3]
    assert len(waiting) == 0


def test_the_same_request_can_not_wait_twice() -> None:
    waiting = batcher()
    fill(waiting, Errand(id=1, deadline_at=1.0))
    with pytest.raises(ValueError, match="waits already"):
        waiting.add(Errand(id=1, deadline_at=2.0))
    assert len(waiting) == 1


def test_a_full_queue_has_no_room_until_something_leaves() -> None:
    waiting = batcher(queue_limit=4)
    fill(waiting, *(Errand(id=i, deadline_at=99.0) for i in range(1, 5)))
    assert not waiting.has_room(Errand(id=5, deadline_at=99.0))
    waiting.next_batch(0.0, 2)
    assert waiting.has_room(Errand(id=5, deadline_at=99.0))


def test_a_flow_has_no_room_beyond_its_quota_and_others_have() -> None:
    waiting = batcher()
    fill(waiting, *(Errand(id=i, deadline_at=99.0, quota=2) for i in (1, 2)))
    assert not waiting.has_room(Errand(id=3, deadline_at=99.0, quota=2))
    assert waiting.has_room(Errand(id=3, deadline_at=99.0, quota=2, flow="other"))
    waiting.cancel(b"a", 1)
    assert waiting.has_room(Errand(id=3, deadline_at=99.0, quota=2))


def measured(key: str = "late", *, fixed_s: float = 0.0, each_s: float) -> Costs:
    costs = Costs()
    for jobs in (1, 2, 4) * 20:
        costs.computed(key, jobs, fixed_s + each_s * jobs, gmacs=1.0, now=0.0)
    return costs


def test_the_work_that_waits_is_counted_in_whole_batches() -> None:
    waiting = batcher(costs=measured(fixed_s=0.1, each_s=0.02))
    fill(waiting, *(Errand(id=i, deadline_at=9.0) for i in range(1, 7)))
    assert waiting.work_s() == pytest.approx((0.1 + 4 * 0.02) + (0.1 + 2 * 0.02), rel=0.02)


def test_the_work_before_a_job_is_what_is_due_before_it() -> None:
    waiting = batcher(costs=measured(each_s=0.1))
    fill(waiting, *(Errand(id=i, deadline_at=float(i), arrived_at=0.5) for i in (1, 2)))
    newcomer = Errand(id=9, key="early", deadline_at=1.5, arrived_at=0.5)
    assert waiting.work_before_s(newcomer) == pytest.approx(0.1, rel=0.01)


def test_those_that_a_job_would_share_a_batch_with_are_not_before_it() -> None:
    waiting = batcher(costs=measured(each_s=0.1))
    fill(waiting, *(Errand(id=i, deadline_at=5.0) for i in range(1, 7)))
    newcomer = Errand(id=9, deadline_at=9.0)
    assert waiting.work_before_s(newcomer) == pytest.approx(0.4, rel=0.01)
    assert waiting.work_before_next_s() == pytest.approx(0.4, rel=0.01)
    assert waiting.work_s() == pytest.approx(0.6, rel=0.01)
    assert batcher().work_before_next_s() == 0.0


def test_a_flood_is_not_before_one_who_has_had_nothing() -> None:
    waiting = batcher(costs=measured(each_s=0.1), queue_limit=100, slack_s=0.2)
    fill(waiting, *(Errand(id=i, deadline_at=5.0, flow="flood") for i in range(1, 53)))
    one, many = Errand(id=99, deadline_at=9.0), Errand(id=99, deadline_at=9.0, flow="flood")
    assert waiting.work_before_s(many) == pytest.approx(5.2, rel=0.01)
    assert waiting.work_before_s(one) == pytest.approx(0.2, rel=0.01)


def test_a_flow_that_has_had_its_share_comes_after_the_others() -> None:
    waiting = batcher(costs=measured(each_s=0.1), queue_limit=100, max_batch=1, slack_s=0.15)
    fill(waiting, *(Errand(id=i, deadline_at=1.0, flow="flood") for i in range(1, 21)))
    fill(waiting, *(Errand(id=i, deadline_at=2.0, flow="quiet") for i in range(101, 106)))
    served = [ids(waiting.next_batch(0.0, 1))[0] for _ in range(12)]
    # Earlier deadlines give the flood a lead of the slack, and no more; then they take turns.
    assert served[:2] == [1, 2]
    assert [id for id in served if id > 100] == [101, 102, 103, 104, 105]
    assert len([id for id in served if id < 100]) == 7


def test_shares_go_by_weight() -> None:
    waiting = batcher(costs=measured(each_s=0.1), queue_limit=100, max_batch=1, slack_s=0.0)
    fill(waiting, *(Errand(id=i, deadline_at=9.0, flow="heavy", weight=3.0) for i in range(40)))
    fill(waiting, *(Errand(id=i, deadline_at=9.0, flow="light") for i in range(100, 140)))
    served = [ids(waiting.next_batch(0.0, 1))[0] for _ in range(40)]
    assert 28 <= len([id for id in served if id < 100]) <= 32


def test_the_place_in_a_batch_that_nobody_else_wants_is_not_wasted() -> None:
    waiting = batcher(costs=measured(each_s=0.1), queue_limit=100, slack_s=0.0)
    fill(waiting, *(Errand(id=i, deadline_at=1.0, flow="flood") for i in range(1, 9)))
    fill(waiting, Errand(id=100, deadline_at=9.0, flow="quiet"))
    assert ids(waiting.next_batch(0.0, 1)) == [1, 100, 2, 3]


def test_nobody_who_has_waited_long_is_overtaken_for_an_early_deadline() -> None:
    waiting = batcher(max_batch=1, queue_limit=100, patience_s=2.0)
    fill(waiting, Errand(id=1, deadline_at=60.0))
    served = []
    for step in range(10):
        soon = Errand(id=100 + step, deadline_at=step + 0.5, arrived_at=float(step))
        fill(waiting, soon)
        served += ids(waiting.next_batch(float(step), 1))
    assert served.index(1) == 2


def test_a_job_that_is_alone_shares_no_batch() -> None:
    waiting = batcher()
    fill(
        waiting,
        Errand(id=1, deadline_at=1.0),
        Errand(id=2, deadline_at=2.0, alone=True),
        Errand(id=3, deadline_at=3.0),
    )
    assert [ids(waiting.next_batch(0.0, 1)) for _ in range(3)] == [[1], [2], [3]]


def test_with_a_maximum_wait_a_batch_is_held_back_until_its_oldest_job_has_waited() -> None:
    waiting = batcher(max_wait_s=0.5)
    fill(
        waiting,
        Errand(id=1, deadline_at=9.0, arrived_at=1.0),
        Errand(id=2, deadline_at=8.0, arrived_at=1.2),
    )
    assert waiting.next_batch(1.3, 1) is None
    assert waiting.next_timer() == 1.5
    assert ids(waiting.next_batch(1.5, 1)) == [2, 1]


def test_a_full_batch_is_not_held_back() -> None:
    waiting = batcher(max_wait_s=5.0, max_batch=2)
    fill(waiting, *(Errand(id=i, deadline_at=9.0) for i in range(1, 4)))
    assert ids(waiting.next_batch(0.0, 1)) == [1, 2]
    assert waiting.next_batch(0.0, 1) is None


def test_a_batch_is_not_held_back_past_its_last_chance() -> None:
    waiting = batcher(max_wait_s=5.0, costs=measured(each_s=0.25))
    fill(waiting, Errand(id=1, deadline_at=1.0))
    assert waiting.next_timer() == pytest.approx(0.75, abs=0.01)
    assert waiting.next_batch(0.7, 1) is None
    assert ids(waiting.next_batch(0.76, 1)) == [1]


def test_a_line_that_is_held_back_lets_others_pass() -> None:
    waiting = batcher(max_wait_s=5.0, max_batch=2)
    fill(
        waiting,
        Errand(id=1, key="early", deadline_at=7.0),
        Errand(id=2, key="late", deadline_at=9.0),
        Errand(id=3, key="late", deadline_at=9.0),
    )
    assert ids(waiting.next_batch(0.0, 1)) == [2, 3]


@pytest.mark.parametrize("wrong", [{"max_batch": 0}, {"queue_limit": 0}, {"max_wait_s": -1.0}])
def test_a_batcher_needs_room(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="needs room"):
        batcher(**wrong)


def test_repr_shows_the_lines() -> None:
    waiting = batcher()
    fill(waiting, Errand(id=1, deadline_at=9.0))
    assert repr(waiting) == "<Batcher 1/8 waiting {'late': 1}>"


class EveryJobLeavesOnce(RuleBasedStateMachine):
    """Anything may happen in any order; a plain list is the model."""

    sessions = (b"a", b"b", b"c")

    def __init__(self) -> None:
        super().__init__()
        self.costs = Costs()
        self.waiting = Batcher[Errand](
            max_batch=3, queue_limit=6, costs=self.costs, max_wait_s=0.5, patience_s=2.0
        )
        self.now = 0.0
        self.next_id = 1
        self.inside: dict[int, Errand] = {}

    def leave(self, jobs: list[Errand]) -> None:
        for job in jobs:
            assert self.inside.pop(job.id) is job

    @rule(
        key=st.sampled_from("xyz"),
        session=st.sampled_from(sessions),
        patience=st.sampled_from((0.0, 0.3, 1.0, 1.0, 4.0)),
        flow=st.sampled_from(("one", "two", "three")),
        alone=st.sampled_from((False, False, False, True)),
    )
    def add(self, key: str, session: bytes, patience: float, flow: str, alone: bool) -> None:
        job = Errand(
            id=self.next_id,
            key=key,
            session=session,
            arrived_at=self.now,
            deadline_at=self.now + patience,
            flow=flow,
            weight={"one": 1.0, "two": 2.0, "three": 0.5}[flow],
            quota=4,
            alone=alone,
        )
        self.next_id += 1
        of_flow = [other for other in self.inside.values() if other.flow == flow]
        assert self.waiting.has_room(job) == (len(self.inside) < 6 and len(of_flow) < 4)
        if self.waiting.has_room(job):
            assert self.waiting.work_before_s(job) <= self.waiting.work_s() + 1e-9
            self.waiting.add(job)
            self.inside[job.id] = job

    @rule(seconds=st.sampled_from((0.1, 0.5, 1.0)))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(idle=st.integers(1, 2))
    def batch(self, idle: int) -> None:
        self.leave(self.waiting.expire(self.now))
        batch = self.waiting.next_batch(self.now, idle)
        if batch is None:
            assert all(self.now < job.arrived_at + 0.5 for job in self.inside.values())
            return
        assert 1 <= len(batch.jobs) <= 3
        assert all(job.key == batch.key and job.deadline_at > self.now for job in batch.jobs)
        assert len(batch.jobs) == 1 or not any(job.alone for job in batch.jobs)
        self.leave(list(batch.jobs))
        for flow in ("one", "two", "three"):
            taken = [_turn(job) for job in batch.jobs if job.flow == flow]
            assert taken == sorted(taken)
            left_behind = [
                _turn(job)
                for job in self.inside.values()
                if (job.key, job.flow) == (batch.key, flow)
            ]
            assert not taken or not left_behind or taken[-1] < min(left_behind)
        self.costs.computed(batch.key, len(batch.jobs), 0.1, gmacs=1.0, now=self.now)

    @rule()
    def expire(self) -> None:
        expired = self.waiting.expire(self.now)
        assert all(job.deadline_at <= self.now for job in expired)
        self.leave(expired)
        assert all(job.deadline_at > self.now for job in self.inside.values())

    @precondition(lambda self: self.inside)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        job = data.draw(st.sampled_from(list(self.inside.values())))
        cancelled = self.waiting.cancel(job.session, job.id)
        assert cancelled is job
        self.leave([job])

    @rule(session=st.sampled_from(sessions))
    def drop_session(self, session: bytes) -> None:
        dropped = self.waiting.drop_session(session)
        self.leave(dropped)
        assert all(job.session != session for job in self.inside.values())

    @invariant()
    def nothing_is_lost_or_doubled(self) -> None:
        assert len(self.waiting) == len(self.inside)
        timer = self.waiting.next_timer()
        assert (timer is None) == (not self.inside)
        if timer is not None:
            assert timer <= min(job.deadline_at for job in self.inside.values())

    def teardown(self) -> None:
        self.leave(self.waiting.drop_all())
        assert not self.inside
        assert self.waiting.next_timer() is None


def _turn(job: Errand) -> tuple[float, int]:
    return min(job.deadline_at, job.arrived_at + 2.0), job.id


TestEveryJobLeavesOnce = EveryJobLeavesOnce.TestCase
TestEveryJobLeavesOnce.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
