"""One engine in a thread of its own, its scheduler in an asyncio loop.

    submit -> Scheduler -> StartStep -> engine thread -> StepFinished -> Scheduler -> Exchange

The scheduler is only touched in the loop. The engine runs one step at a time: in its thread, or in
the loop when the step is so brief that waking a thread, and being woken by it, would take longer.
"""

import asyncio
from functools import partial
from typing import Final

from headtail_cloud.core.actions import Action, StartStep, Step
from headtail_cloud.core.cost_model import CostModel
from headtail_cloud.core.engine import Engine
from headtail_cloud.core.events import StepFinished
from headtail_cloud.core.options import SchedulerOptions
from headtail_cloud.core.request import Request
from headtail_cloud.core.scheduler import Scheduler
from headtail_cloud.core.task import work_of
from headtail_cloud.dispatch.group import Key
from headtail_cloud.runtime.core_loop import CoreLoop
from headtail_cloud.runtime.engine_thread import Ended, EngineThread, run_step
from headtail_cloud.runtime.exchange import Exchange
from headtail_cloud.runtime.serving import Unwatched, Watcher
from headtail_fabric.clock import Clock, MonotonicClock

_BRIEF_S: Final = 0.001
"""A step of that engine's estimate may run in the loop: one request's HTTP takes as long."""


class InProcessRuntime:
    """A `Runtime`. Made, used and closed in one asyncio loop."""

    def __init__(
        self,
        engine: Engine,
        *,
        options: SchedulerOptions | None = None,
        watcher: Watcher | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._engine = engine
        self._scheduler = Scheduler(engine.capacity(), CostModel(engine.estimate), options)
        self._watcher = watcher or Unwatched()
        self._clock = clock or MonotonicClock()
        self._loop = asyncio.get_running_loop()
        self._thread = EngineThread("engine", self._loop)
        self._core = CoreLoop(
            on_event=lambda event, now: self._scheduler.on_event(event, now),
            next_timer=lambda now: self._scheduler.next_timer(),
            idle=lambda: self._scheduler.idle,
            perform=self._perform,
            fed=self._measure,
            clock=self._clock,
        )

    def __repr__(self) -> str:
        return f"<InProcessRuntime {self._scheduler!r}>"

    @property
    def alive(self) -> bool:
        """Whether requests are served: not after a bug in the scheduler."""
        return self._core.alive

    def submit(self, request: Request) -> Exchange:
        """Raises ValueError when a request of that id is here."""
        return self._core.submit(request)

    def announce(self, key: Key, due_in_s: float) -> None:
        """Its engine is always there."""

    async def close(self, grace_s: float) -> None:
        """Accept nothing more; what was accepted has that long, then it is cancelled."""
        await self._core.close(grace_s)
        self._thread.stop()

    def _perform(self, action: Action) -> None:
        if not isinstance(action, StartStep):
            self._watcher.acted(action)
            return
        # Not by what such steps took: waiting for a thread would make them look long.
        if self._engine.estimate(work_of(action.step.tasks)) <= _BRIEF_S:
            self._loop.call_soon(self._compute_here, action.step)
            return
        work = partial(run_step, self._engine, action.step, self._clock)
        self._thread.do(work, partial(self._computed, action.step))

    def _compute_here(self, step: Step) -> None:
        self._computed(step, run_step(self._engine, step, self._clock))

    def _computed(self, step: Step, ended: Ended) -> None:
        if isinstance(ended, StepFinished):
            self._watcher.step_took(step, ended.took_s)
        self._core.feed(ended)

    def _measure(self) -> None:
        self._watcher.load(len(self._scheduler), self._scheduler.cache.usage)
