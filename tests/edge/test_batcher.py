"""The batcher: order, batch sizes, refusals, and that every job leaves exactly once."""

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headtail_edge.batcher import Batch, Batcher, Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    id: int
    deadline_at: float
    key: str = "late"
    session: bytes = b"a"
    arrived_at: float = 0.0


def batcher(**settings: Any) -> Batcher[Errand]:
    return Batcher(**{"max_batch": 4, "queue_limit": 8, "workers": 1, **settings})


def ids(batch: Batch[Errand] | None) -> list[int]:
    return [job.id for job in batch.jobs] if batch is not None else []


def fill(waiting: Batcher[Errand], *jobs: Errand) -> None:
    for job in jobs:
        assert waiting.add(job) is None


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


def test_an_expired_job_is_never_batched_and_leaves_by_expire() -> None:
    waiting = batcher()
    fill(waiting, Errand(id=1, deadline_at=1.0), Errand(id=2, deadline_at=2.0))
    assert waiting.next_timer() == 1.0
    assert ids(waiting.next_batch(1.0, 1)) == [2]
    assert waiting.next_batch(1.0, 1) is None
    assert [job.id for job in waiting.expire(1.0)] == [1]
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


def test_a_full_queue_refuses_for_as_long_as_the_work_in_it_takes() -> None:
    waiting = batcher(queue_limit=4, workers=2)
    waiting.served("late", 2, 0.2)
    fill(waiting, *(Errand(id=i, deadline_at=99.0) for i in range(1, 5)))
    refusal = waiting.add(Errand(id=5, deadline_at=99.0))
    assert isinstance(refusal, Refusal)
    assert refusal.retry_after_s == pytest.approx(4 * 0.1 / 2)
    waiting.next_batch(0.0, 1)
    assert waiting.add(Errand(id=5, deadline_at=99.0)) is None


def test_service_times_are_averaged_by_key() -> None:
    waiting = batcher()
    waiting.served("late", 1, 1.0)
    waiting.served("late", 1, 2.0)
    waiting.served("early", 1, 0.1)
    fill(waiting, Errand(id=1, deadline_at=9.0))
    assert waiting.backlog_s() == pytest.approx(1.2)
    fill(waiting, Errand(id=2, key="early", deadline_at=9.0))
    assert waiting.backlog_s() == pytest.approx(1.3)


def test_a_key_that_was_never_measured_counts_as_the_others_do() -> None:
    waiting = batcher()
    fill(waiting, Errand(id=1, key="new", deadline_at=9.0))
    assert waiting.backlog_s() == pytest.approx(0.05)
    waiting.served("a", 1, 1.0)
    waiting.served("b", 1, 2.0)
    assert waiting.backlog_s() == pytest.approx(1.5)


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
    waiting = batcher(max_wait_s=5.0)
    waiting.served("late", 1, 0.25)
    fill(waiting, Errand(id=1, deadline_at=1.0))
    assert waiting.next_timer() == 0.75
    assert waiting.next_batch(0.7, 1) is None
    assert ids(waiting.next_batch(0.75, 1)) == [1]


def test_a_line_that_is_held_back_lets_others_pass() -> None:
    waiting = batcher(max_wait_s=5.0, max_batch=2)
    fill(
        waiting,
        Errand(id=1, key="early", deadline_at=7.0),
        Errand(id=2, key="late", deadline_at=9.0),
        Errand(id=3, key="late", deadline_at=9.0),
    )
    assert ids(waiting.next_batch(0.0, 1)) == [2, 3]


@pytest.mark.parametrize(
    "wrong", [{"max_batch": 0}, {"queue_limit": 0}, {"workers": 0}, {"max_wait_s": -1.0}]
)
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
        self.waiting = Batcher[Errand](max_batch=3, queue_limit=6, workers=2, max_wait_s=0.5)
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
    )
    def add(self, key: str, session: bytes, patience: float) -> None:
        job = Errand(
            id=self.next_id,
            key=key,
            session=session,
            arrived_at=self.now,
            deadline_at=self.now + patience,
        )
        self.next_id += 1
        refusal = self.waiting.add(job)
        assert (refusal is not None) == (len(self.inside) == 6)
        if refusal is None:
            self.inside[job.id] = job
        else:
            assert refusal.retry_after_s > 0

    @rule(seconds=st.sampled_from((0.1, 0.5, 1.0)))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(idle=st.integers(1, 2))
    def batch(self, idle: int) -> None:
        alive = [job for job in self.inside.values() if job.deadline_at > self.now]
        batch = self.waiting.next_batch(self.now, idle)
        if batch is None:
            assert all(self.now < job.arrived_at + 0.5 for job in alive)
            return
        assert 1 <= len(batch.jobs) <= 3
        assert all(job.key == batch.key and job.deadline_at > self.now for job in batch.jobs)
        order = [(job.deadline_at, job.id) for job in batch.jobs]
        assert order == sorted(order)
        left_behind = [job for job in alive if job.key == batch.key and job not in batch.jobs]
        assert all((job.deadline_at, job.id) > order[-1] for job in left_behind)
        self.leave(list(batch.jobs))
        self.waiting.served(batch.key, len(batch.jobs), 0.1)

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


TestEveryJobLeavesOnce = EveryJobLeavesOnce.TestCase
TestEveryJobLeavesOnce.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
