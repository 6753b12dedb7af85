"""The in-process runtime, over a modelled engine, in a real asyncio loop."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import pytest

from cloud_doubles import said, tail, text
from headtail_cloud.core.actions import (
    Accept,
    Action,
    EmitToken,
    Finish,
    Outcome,
    Reason,
    Reject,
    Step,
)
from headtail_cloud.core.engine import Capacity
from headtail_cloud.core.options import SchedulerOptions
from headtail_cloud.core.scheduler import Scheduler
from headtail_cloud.core.task import Task, TaskResult
from headtail_cloud.dispatch.events import FleetAction
from headtail_cloud.engines.modelled import ModelledEngine, Prices
from headtail_cloud.runtime.exchange import RuntimeBrokenError
from headtail_cloud.runtime.in_process import InProcessRuntime
from headtail_cloud.runtime.serving import Unwatched

LIMITS = Capacity(max_batch=4, blocks=32, block_tokens=4)


@dataclass(slots=True, kw_only=True)
class GatedEngine(ModelledEngine):
    """A step waits until the gate is open; it begins open."""

    gate: threading.Event = field(default_factory=threading.Event)
    error: Exception | None = None

    def __post_init__(self) -> None:
        self.gate.set()

    def step(self, tasks: Sequence[Task]) -> list[TaskResult]:
        self.gate.wait(30)
        if self.error is not None:
            raise self.error
        return ModelledEngine.step(self, tasks)


class Seen(Unwatched):
    def __init__(self) -> None:
        self.actions: list[FleetAction] = []
        self.steps = 0

    def acted(self, action: FleetAction) -> None:
        self.actions.append(action)

    def step_took(self, step: Step, seconds: float) -> None:
        self.steps += 1


def run(
    work: Callable[[InProcessRuntime], Awaitable[None]],
    engine: GatedEngine | None = None,
    *,
    options: SchedulerOptions | None = None,
    seen: Seen | None = None,
) -> None:
    async def whole() -> None:
        runtime = InProcessRuntime(
            engine or GatedEngine(limits=LIMITS), options=options, watcher=seen
        )
        try:
            await work(runtime)
        finally:
            await runtime.close(10.0)

    asyncio.run(whole())


def test_a_tail_is_answered() -> None:
    async def work(runtime: InProcessRuntime) -> None:
        end = await runtime.submit(tail(1, deadline_s=20)).end()
        assert isinstance(end, Finish)
        assert end.outcome is Outcome.DONE
        assert end.output == ("tail-1", "yolo@1.0#tail")

    seen = Seen()
    run(work, seen=seen)
    assert seen.steps == 1
    assert isinstance(seen.actions[0], Accept)


@pytest.mark.parametrize(("item_s", "in_loop"), [(0.0001, True), (0.1, False)])
def test_a_brief_step_needs_no_thread(item_s: float, in_loop: bool) -> None:
    threads: list[threading.Thread] = []

    @dataclass(slots=True, kw_only=True)
    class Noting(GatedEngine):
        def step(self, tasks: Sequence[Task]) -> list[TaskResult]:
            threads.append(threading.current_thread())
            return GatedEngine.step(self, tasks)

    async def work(runtime: InProcessRuntime) -> None:
        assert isinstance(await runtime.submit(tail(1)).end(), Finish)
        assert [one is threading.current_thread() for one in threads] == [in_loop]

    run(work, Noting(limits=LIMITS, prices=Prices(step_s=0.0, run_s=0.0, item_s=item_s)))


def test_a_text_streams_its_tokens() -> None:
    async def work(runtime: InProcessRuntime) -> None:
        told = [what async for what in runtime.submit(text(1, [1, 2, 3]))]
        assert isinstance(told[0], Accept)
        assert isinstance(told[-1], Finish)
        tokens = [what.token for what in told if isinstance(what, EmitToken)]
        assert tokens == said([1, 2, 3], 4)

    run(work)


def test_a_refused_request_ends_at_once() -> None:
    async def work(runtime: InProcessRuntime) -> None:
        end = await runtime.submit(text(1, range(400))).end()
        assert isinstance(end, Reject)
        assert end.reason is Reason.TOO_LARGE

    run(work)


def test_what_waits_expires_while_the_engine_is_busy() -> None:
    engine = GatedEngine(limits=LIMITS)

    async def work(runtime: InProcessRuntime) -> None:
        engine.gate.clear()
        busy = runtime.submit(tail(1, deadline_s=30))
        late = await runtime.submit(tail(2, deadline_s=0.05)).end()
        engine.gate.set()
        assert isinstance(late, Finish)
        assert late.outcome is Outcome.EXPIRED
        assert isinstance(await busy.end(), Finish)

    run(work, engine)


def test_a_reader_that_is_cancelled_cancels_its_request() -> None:
    engine, seen = GatedEngine(limits=LIMITS), Seen()

    async def work(runtime: InProcessRuntime) -> None:
        engine.gate.clear()
        reading = asyncio.ensure_future(runtime.submit(tail(1, deadline_s=30)).end())
        await asyncio.sleep(0)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        engine.gate.set()

    run(work, engine, seen=seen)
    outcomes = [action.outcome for action in seen.actions if isinstance(action, Finish)]
    assert outcomes == [Outcome.CANCELLED]


def test_the_same_id_twice() -> None:
    engine = GatedEngine(limits=LIMITS)

    async def work(runtime: InProcessRuntime) -> None:
        engine.gate.clear()
        runtime.submit(tail(1, deadline_s=30))
        with pytest.raises(ValueError, match="here already"):
            runtime.submit(tail(1))
        engine.gate.set()

    run(work, engine)


@pytest.mark.parametrize("error", [RuntimeError("segmentation"), MemoryError()])
def test_an_engine_that_raises_fails_its_request_and_lives_on(error: Exception) -> None:
    engine = GatedEngine(limits=LIMITS)

    async def work(runtime: InProcessRuntime) -> None:
        engine.error = error
        end = await runtime.submit(tail(1, deadline_s=20)).end()
        assert isinstance(end, Finish)
        assert (end.outcome, end.message) == (Outcome.FAILED, "the engine failed")
        engine.error = None
        end = await runtime.submit(tail(2, deadline_s=20)).end()
        assert isinstance(end, Finish)
        assert end.outcome is Outcome.DONE
        assert runtime.alive

    run(work, engine)


def test_one_that_breaks_the_engine_takes_no_other_along() -> None:
    engine = GatedEngine(limits=LIMITS, breaks={"tail-2"})

    async def work(runtime: InProcessRuntime) -> None:
        engine.gate.clear()
        exchanges = [runtime.submit(tail(n, deadline_s=20)) for n in range(4)]
        engine.gate.set()
        ends = [await exchange.end() for exchange in exchanges]
        outcomes = [end.outcome for end in ends if isinstance(end, Finish)]
        assert outcomes == [Outcome.DONE, Outcome.DONE, Outcome.FAILED, Outcome.DONE]

    run(work, engine)


def test_closing_lets_what_was_accepted_end() -> None:
    async def whole() -> None:
        runtime = InProcessRuntime(GatedEngine(limits=LIMITS))
        exchange = runtime.submit(text(1, [1, 2]))
        await runtime.close(10.0)
        assert isinstance(await exchange.end(), Finish)
        refused = await runtime.submit(tail(2)).end()
        assert isinstance(refused, Reject)
        assert refused.reason is Reason.DRAINING

    asyncio.run(whole())


def test_closing_cancels_what_takes_longer_than_the_grace() -> None:
    engine = GatedEngine(limits=LIMITS)

    async def whole() -> None:
        runtime = InProcessRuntime(engine)
        engine.gate.clear()
        exchange = runtime.submit(tail(1, deadline_s=30))
        await runtime.close(0.01)
        end = await exchange.end()
        engine.gate.set()
        assert isinstance(end, Finish)
        assert end.outcome is Outcome.CANCELLED

    asyncio.run(whole())


def test_a_bug_in_the_scheduler_leaves_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> list[Action]:
        raise RuntimeError("a bug")

    async def work(runtime: InProcessRuntime) -> None:
        monkeypatch.setattr(Scheduler, "on_event", broken)
        for number in range(2):
            with pytest.raises(RuntimeBrokenError, match="the scheduler failed"):
                await runtime.submit(tail(number)).end()
        assert not runtime.alive

    run(work)
