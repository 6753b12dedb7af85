"""One engine in a thread of its own, its scheduler in an asyncio loop.

    submit -> Scheduler -> StartStep -> engine thread -> StepFinished -> Scheduler -> Exchange

The scheduler is only touched in the loop, the engine only in its thread.
"""

import asyncio
import logging
from typing import Protocol

from headtail_cloud.core.actions import Action, Finish, Reject, StartStep, Step
from headtail_cloud.core.cost_model import CostModel
from headtail_cloud.core.engine import Engine
from headtail_cloud.core.events import (
    DrainAsked,
    Event,
    RequestArrived,
    RequestCancelled,
    StepFinished,
    TimePassed,
)
from headtail_cloud.core.options import SchedulerOptions
from headtail_cloud.core.request import Request
from headtail_cloud.core.scheduler import Scheduler
from headtail_cloud.runtime.engine_thread import Ended, EngineThread
from headtail_cloud.runtime.exchange import Exchange, RuntimeBrokenError
from headtail_fabric.clock import Clock, MonotonicClock
from headtail_fabric.logs import fields

log = logging.getLogger(__name__)


class Watcher(Protocol):
    """Sees what happens, to measure it. Called in the loop: quick, and raises nothing."""

    def acted(self, action: Action) -> None: ...

    def step_took(self, step: Step, seconds: float) -> None: ...

    def load(self, scheduler: Scheduler) -> None: ...


class Unwatched:
    """Measures nothing."""

    def acted(self, action: Action) -> None:
        pass

    def step_took(self, step: Step, seconds: float) -> None:
        pass

    def load(self, scheduler: Scheduler) -> None:
        pass


class InProcessRuntime:
    """Made, used and closed in one asyncio loop."""

    def __init__(
        self,
        engine: Engine,
        *,
        options: SchedulerOptions | None = None,
        watcher: Watcher | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._scheduler = Scheduler(engine.capacity(), CostModel(engine.estimate), options)
        self._watcher = watcher or Unwatched()
        self._clock = clock or MonotonicClock()
        self._loop = asyncio.get_running_loop()
        self._thread = EngineThread(engine, clock=self._clock, loop=self._loop, done=self._computed)
        self._exchanges: dict[str, Exchange] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._idle = asyncio.Event()
        self._broken = False

    def __repr__(self) -> str:
        return f"<InProcessRuntime {self._scheduler!r}>"

    @property
    def alive(self) -> bool:
        """Whether requests are served: not after a bug in the scheduler."""
        return not self._broken

    def submit(self, request: Request) -> Exchange:
        """Raises ValueError when a request of that id is here."""
        if request.id in self._exchanges:
            raise ValueError(f"request {request.id!r} is here already")
        exchange = Exchange(request.id, self._cancel)
        self._exchanges[request.id] = exchange
        if self._broken:
            self._end_broken(request.id)
        else:
            self._feed(RequestArrived(request=request))
        return exchange

    async def close(self, grace_s: float) -> None:
        """Accept nothing more; what was accepted has that long, then it is cancelled."""
        self._feed(DrainAsked())
        try:
            await asyncio.wait_for(self._idle.wait(), grace_s)
        except TimeoutError:
            for request_id in list(self._exchanges):
                self._cancel(request_id)
        if self._timer is not None:
            self._timer.cancel()
        self._thread.stop()

    def _cancel(self, request_id: str) -> None:
        if request_id in self._exchanges:
            self._feed(RequestCancelled(request_id=request_id))

    def _feed(self, event: Event) -> None:
        if self._broken:
            return
        try:
            for action in self._scheduler.on_event(event, self._clock.now()):
                self._act(action)
        except Exception:  # a bug in the core: nobody is left waiting for it
            log.exception("the scheduler failed", extra=fields(scheduler=self._scheduler))
            self._break()
            return
        self._set_timer()
        self._watcher.load(self._scheduler)
        if self._scheduler.idle:
            self._idle.set()
        else:
            self._idle.clear()

    def _act(self, action: Action) -> None:
        self._watcher.acted(action)
        if isinstance(action, StartStep):
            self._thread.compute(action.step)
            return
        self._exchanges[action.request_id].tell(action)
        if isinstance(action, Finish | Reject):
            del self._exchanges[action.request_id]

    def _computed(self, step: Step, ended: Ended) -> None:
        if isinstance(ended, StepFinished):
            self._watcher.step_took(step, ended.took_s)
        self._feed(ended)

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        at = self._scheduler.next_timer()
        if at is not None:
            delay_s = max(0.0, at - self._clock.now())
            self._timer = self._loop.call_later(delay_s, self._feed, TimePassed())

    def _break(self) -> None:
        self._broken = True
        self._idle.set()
        for request_id in list(self._exchanges):
            self._end_broken(request_id)

    def _end_broken(self, request_id: str) -> None:
        error = RuntimeBrokenError("the scheduler failed", request_id=request_id)
        self._exchanges.pop(request_id).tell(error)
