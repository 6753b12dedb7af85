"""One text's move, step by step, and whole moves in a fleet: what it says never changes."""

import pytest

from cloud_doubles import said, tail, text
from fleet_desk import LIMITS, FleetDesk, plan
from headtail_cloud.core.actions import Outcome, StartStep
from headtail_cloud.core.block_pool import OutOfBlocksError
from headtail_cloud.core.cost_model import CostModel
from headtail_cloud.core.engine import Capacity
from headtail_cloud.core.events import RequestArrived, RequestCancelled, StepFinished
from headtail_cloud.core.job import TextJob
from headtail_cloud.core.scheduler import Scheduler
from headtail_cloud.engines.modelled import ModelledEngine, Prices
from headtail_cloud.migration.policy import InstanceView, Move, Role, TextView, Why, moves
from headtail_cloud.migration.stages import MAX_STAGES, Migration

PROMPT = list(range(30))


class Bench:
    """A scheduler with its engine, worked by hand."""

    def __init__(self, capacity: Capacity = LIMITS) -> None:
        self.engine = ModelledEngine(limits=capacity)
        self.scheduler = Scheduler(capacity, CostModel(self.engine.estimate))
        self.tokens: list[int] = []
        self.step: StartStep | None = None

    def arrive(self, *prompt: int, number: int = 1, max_tokens: int = 40) -> TextJob:
        request = text(number, prompt, max_tokens=max_tokens)
        self.take(self.scheduler.on_event(RequestArrived(request=request), 0.0))
        job = self.scheduler.jobs[-1]
        assert isinstance(job, TextJob)
        return job

    def take(self, actions: list) -> None:  # type: ignore[type-arg]
        self.step = next((a for a in actions if isinstance(a, StartStep)), None)
        self.tokens += [a.token for a in actions if hasattr(a, "token")]

    def work(self, steps: int = 1) -> None:
        """Ends that many iterations."""
        for _ in range(steps):
            assert self.step is not None, "nothing runs"
            results = self.engine.step(self.step.step.tasks)
            done = StepFinished(step_id=self.step.step.id, results=results, took_s=0.01)
            self.take(self.scheduler.on_event(done, 0.0))


def carry(migration: Migration, source: Bench, target: Bench, *, now: float = 0.0) -> int:
    """Makes the next copy; how many positions it had."""
    copy = migration.next_copy(now)
    if copy is None:
        return 0
    target.engine.import_(copy.target, source.engine.export(copy.source))
    migration.copied()
    return copy.source.positions


def test_it_is_copied_in_stages_while_it_decodes() -> None:
    source, target = Bench(), Bench()
    job = source.arrive(*PROMPT)
    source.work(3)
    migration = Migration(job, source=source.scheduler, target=target.scheduler)
    assert carry(migration, source, target) == 32, "the full blocks of 30 + 2 tokens"
    assert not job.held, "it goes on meanwhile"
    source.work(9)
    assert carry(migration, source, target) == 8
    assert not job.held
    source.work(2)
    assert carry(migration, source, target) == 0
    assert job.held
    assert not migration.complete, "its last iteration has not ended"
    source.work()
    assert source.step is None, "it stands still"
    assert carry(migration, source, target, now=2.0) == job.computed - 40
    assert migration.complete
    assert migration.stages == MAX_STAGES
    target.take(migration.commit(2.0))
    assert len(source.scheduler) == 0
    assert len(target.scheduler) == 1
    first = source.tokens
    target.work(20)
    assert [*first, *target.tokens] == said(PROMPT, len(first) + len(target.tokens))
    assert source.scheduler.cache.pool.free == LIMITS.blocks


def test_what_the_target_has_is_not_copied() -> None:
    source, target = Bench(), Bench()
    target.arrive(*PROMPT, number=2, max_tokens=1)
    target.work()
    job = source.arrive(*PROMPT)
    source.work()
    migration = Migration(job, source=source.scheduler, target=target.scheduler)
    assert migration.next_copy(0.0) is None
    source.work()
    assert carry(migration, source, target) == job.computed - 28
    assert migration.complete
    target.take(migration.commit(0.0))
    target.work(5)
    assert source.tokens + target.tokens[1:] == said(PROMPT, 2 + 5)


def test_an_aborted_move_leaves_no_trace() -> None:
    source, target = Bench(), Bench()
    job = source.arrive(*PROMPT)
    source.work(4)
    migration = Migration(job, source=source.scheduler, target=target.scheduler)
    carry(migration, source, target)
    migration.abort()
    assert target.scheduler.cache.pool.free == LIMITS.blocks
    source.work(36)
    assert source.tokens == said(PROMPT, 40)


def test_a_text_that_ends_or_is_preempted_meanwhile() -> None:
    for ends in (True, False):
        source, target = Bench(), Bench()
        job = source.arrive(*PROMPT)
        source.work(3)
        migration = Migration(job, source=source.scheduler, target=target.scheduler)
        assert migration.next_copy(0.0) is not None
        assert migration.sound
        if ends:
            cancelled = RequestCancelled(request_id=job.request.id)
            source.take(source.scheduler.on_event(cancelled, 0.0))
        else:
            source.scheduler.cache.evict(job)
        assert not migration.sound


def test_a_target_without_room_and_one_of_another_kind() -> None:
    source = Bench()
    job = source.arrive(*PROMPT)
    source.work(3)
    small = Bench(Capacity(max_batch=4, blocks=3, block_tokens=4))
    with pytest.raises(OutOfBlocksError):
        Migration(job, source=source.scheduler, target=small.scheduler).next_copy(0.0)
    other = Bench(Capacity(max_batch=4, blocks=64, block_tokens=16))
    with pytest.raises(ValueError, match="different sizes"):
        Migration(job, source=source.scheduler, target=other.scheduler)


def test_a_drained_instance_gives_its_texts_away() -> None:
    """Two instances were started; two texts are enough for one."""
    slow = Prices(step_s=0.02)
    roomy = Capacity(max_batch=4, blocks=256, block_tokens=4)
    shape = plan(least=0, most=2, stable_s=2.0, target=4.0, prices=slow, capacity=roomy)
    desk = FleetDesk(shape, prices=slow)
    prompts = {n: list(range(n * 50, n * 50 + 30)) for n in range(2)}
    desk.arrive(1.0, *(text(n, p, max_tokens=400) for n, p in prompts.items()))
    desk.run(1.5)
    assert len(desk.starts) == 2
    desk.run(60.0)
    (moved,) = desk.moved
    assert moved.why == Why.DRAIN
    assert 1 < moved.stages <= MAX_STAGES
    assert moved.pause_s < 0.05, "an iteration and a copy, not 400 tokens"
    assert desk.stops[0] == moved.source
    assert {end.outcome for end in desk.finished.values()} == {Outcome.DONE}
    for number, prompt in prompts.items():
        assert desk.tokens[f"text-{number}"] == said(prompt, 400)


def test_prefill_and_decode_apart_hand_over_after_the_first_token() -> None:
    desk = FleetDesk(plan(least=2, most=2, prefills=1))
    desk.arrive(1.0, *(text(n, range(n * 50, n * 50 + 30), max_tokens=100) for n in range(2)))
    desk.run(30.0)
    assert [move.why for move in desk.moved] == [Why.HAND_OFF] * 2
    prefilling, decoding = "group/1", "group/2"
    assert {(move.source, move.target) for move in desk.moved} == {(prefilling, decoding)}
    for number in range(2):
        prompt = range(number * 50, number * 50 + 30)
        assert desk.tokens[f"text-{number}"] == said(prompt, 100)


def test_the_source_and_the_target_killed_in_a_move() -> None:
    for which in (0, 1):
        desk = FleetDesk(plan(least=2, most=2, prefills=1))
        desk.arrive(1.0, text(1, range(30), max_tokens=60))
        when = 1.0
        desk.run(when)
        while not desk.copies:
            desk.run(when := when + 0.001)
        desk.kill(desk.fleet.members[which].name)
        desk.run(30.0)
        assert desk.finished["text-1"].outcome is Outcome.DONE
        assert desk.tokens["text-1"] == said(range(30), 60), f"{which} killed"
        for member in desk.fleet.members:
            assert member.scheduler.cache.pool.free == member.scheduler.cache.pool.total


def view(name: str, *texts: TextView, free: int = 50, **more: object) -> InstanceView:
    fields: dict[str, object] = {
        "instance": name,
        "group": "g",
        "draining": False,
        "role": Role.ANY,
        "texts": texts,
        "waits_for_room": None,
        "free": free,
        "total": 100,
        "block_tokens": 16,
        "places": 4,
        **more,
    }
    return InstanceView(**fields)  # type: ignore[arg-type]


def held(name: str, positions: int = 100, priority: int = 0, *, decoding: bool = True) -> TextView:
    return TextView(request_id=name, positions=positions, priority=priority, decoding=decoding)


def test_balance_moves_the_shortest_from_the_fullest_to_the_emptiest() -> None:
    full = view("full", held("long", 400), held("short", 40), free=5)
    views = [full, view("half", held("x"), free=50), view("empty", free=100)]
    assert moves(views) == [
        Move(request_id="short", source="full", target="empty", why=Why.BALANCE)
    ]
    assert moves([full, view("as full", free=10)]) == [], "no gap worth a move"
    assert moves([view("a", held("x"), free=60), view("b", free=100)]) == [], "not full"


def test_priority_makes_room_by_moving_the_least_important_text() -> None:
    tight = view("tight", held("low", 90, 0), held("high", 10, 5), free=0, waits_for_room=3)
    assert moves([tight, view("roomy", free=30)])[0] == Move(
        request_id="low", source="tight", target="roomy", why=Why.PRIORITY
    )
    calm = view("calm", held("high", 10, 5), free=40, waits_for_room=3)
    assert moves([calm, view("roomy", free=60)]) == []


def test_a_drain_comes_first_and_only_where_it_fits() -> None:
    going = view("going", held("a", 200), held("b", 3000), draining=True)
    assert moves([going, view("stays", free=20)]) == [
        Move(request_id="a", source="going", target="stays", why=Why.DRAIN)
    ]
    for unfit in (
        view("stays", free=20, places=0),
        view("stays", free=20, group="other"),
        view("stays", free=20, draining=True),
        view("stays", free=20, role=Role.PREFILL),
        view("stays", free=20, moving=2),
        view("stays", free=13 - 1),
    ):
        assert moves([going, unfit]) == [], unfit


def test_hand_off_is_of_texts_that_decode() -> None:
    first = view("first", held("new", decoding=False), held("old"), role=Role.PREFILL)
    second = view("second", role=Role.DECODE)
    assert moves([first, second]) == [
        Move(request_id="old", source="first", target="second", why=Why.HAND_OFF)
    ]


def test_a_tail_never_moves_by_copies() -> None:
    desk = FleetDesk(plan(least=2, most=2, prefills=1), prices=Prices(run_s=0.05))
    desk.arrive(1.0, *(tail(n, deadline_s=5.0) for n in range(4)))
    desk.run(9.0)
    assert desk.moved == []
    assert {end.outcome for end in desk.finished.values()} == {Outcome.DONE}
