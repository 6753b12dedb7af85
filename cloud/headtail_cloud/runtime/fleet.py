"""Many engines in processes of their own, their schedulers in one asyncio loop.

    submit -> Fleet -> RunStep -> the instance's thread -> its process -> StepEnded -> Fleet

Each instance has a thread here that starts its process, waits for it and speaks with it: what a
thread does is in the order in which the fleet asked for it. The fleet is touched in the loop alone.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from headtail_cloud.core.actions import Step
from headtail_cloud.core.engine import Engine, EngineLostError
from headtail_cloud.core.events import StepFailed, StepFinished, TimePassed
from headtail_cloud.core.options import SchedulerOptions
from headtail_cloud.core.request import Request
from headtail_cloud.dispatch.events import (
    ExportState,
    FleetAction,
    FleetEvent,
    ImportState,
    InstanceLost,
    InstanceNotStarted,
    InstanceStarted,
    Moved,
    RequestAnnounced,
    RunStep,
    StartInstance,
    StateExported,
    StateImported,
    StateRefused,
    StepEnded,
    StopInstance,
    TierChanged,
)
from headtail_cloud.dispatch.fleet import Fleet
from headtail_cloud.dispatch.group import GroupPlan, Key
from headtail_cloud.runtime.core_loop import CoreLoop
from headtail_cloud.runtime.engine_thread import Ended, EngineThread, run_step
from headtail_cloud.runtime.exchange import Exchange
from headtail_cloud.runtime.launcher import Launched, Launcher, LaunchError
from headtail_cloud.runtime.serving import Unwatched, Watcher
from headtail_fabric.clock import Clock, MonotonicClock
from headtail_fabric.errors import HeadtailError
from headtail_fabric.logs import fields

log = logging.getLogger(__name__)

_LONGEST_END_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveGroup:
    """A group, and what starts its instances."""

    plan: GroupPlan
    launcher: Launcher


class _Instance:
    """One instance's thread, and its engine while it has one."""

    def __init__(self, name: str, launcher: Launcher, loop: asyncio.AbstractEventLoop) -> None:
        self.name = name
        self._launcher = launcher
        self.thread = EngineThread(name, loop)
        self.launched: Launched | None = None

    def start(self) -> Launched | LaunchError:
        """In its thread: a new engine, in place of one that was lost."""
        self.end()
        try:
            self.launched = self._launcher.launch()
        except LaunchError as error:
            return error
        return self.launched

    def step(self, step: Step, clock: Clock) -> Ended:
        """In its thread."""
        if self.launched is None:
            return StepFailed(step_id=step.id, message="no engine", state_lost=True, begun=False)
        return run_step(self.launched.engine, step, clock)

    def export(self, action: ExportState) -> FleetEvent:
        """In its thread."""
        try:
            data = self._engine().export(action.state)
        except HeadtailError as error:
            return StateRefused(move=action.move, reason=error.message)
        return StateExported(move=action.move, data=data)

    def import_(self, action: ImportState) -> FleetEvent:
        """In its thread."""
        try:
            self._engine().import_(action.state, action.data)
        except HeadtailError as error:
            return StateRefused(move=action.move, reason=error.message)
        return StateImported(move=action.move)

    def end(self) -> None:
        """In its thread: its engine, if it has one."""
        if self.launched is not None:
            self.launched.close()
            self.launched = None

    def _engine(self) -> Engine:
        if self.launched is None:
            raise EngineLostError(f"{self.name} has no engine")
        return self.launched.engine


class FleetRuntime:
    """A `Runtime` over any number of instances. Made, used and closed in one asyncio loop."""

    def __init__(
        self,
        groups: Sequence[LiveGroup],
        *,
        options: SchedulerOptions | None = None,
        watcher: Watcher | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Raises ValueError when two groups serve the same."""
        self._fleet = Fleet((group.plan for group in groups), options)
        self._launchers = {group.plan.name: group.launcher for group in groups}
        self._groups = {key: group.plan.name for group in groups for key in group.plan.serves}
        self._watcher = watcher or Unwatched()
        self._clock = clock or MonotonicClock()
        self._loop = asyncio.get_running_loop()
        self._instances: dict[str, _Instance] = {}
        self._core = CoreLoop(
            on_event=lambda event, now: self._fleet.on_event(event, now),
            next_timer=self._fleet.next_timer,
            idle=lambda: self._fleet.idle,
            perform=self._perform,
            fed=self._measure,
            clock=self._clock,
        )
        self._core.feed(TimePassed())

    def __repr__(self) -> str:
        return f"<FleetRuntime {self._fleet!r}>"

    @property
    def alive(self) -> bool:
        """Whether requests are served: not after a bug in the fleet."""
        return self._core.alive

    def submit(self, request: Request) -> Exchange:
        """Raises ValueError when a request of that id is here."""
        return self._core.submit(request)

    def announce(self, key: Key, due_in_s: float) -> None:
        """A request for that is due then. Nothing happens when nobody serves it."""
        group = self._groups.get(key)
        if group is not None:
            self._core.feed(RequestAnnounced(group=group, due_in_s=due_in_s))

    async def close(self, grace_s: float) -> None:
        """Accept nothing more; what was accepted has that long, then it is cancelled. Then all
        processes end."""
        await self._core.close(grace_s)
        ends = [self._ended(instance) for instance in self._instances.values()]
        self._instances.clear()
        if ends:
            await asyncio.wait(ends, timeout=_LONGEST_END_S)
        for launcher in self._launchers.values():
            await asyncio.to_thread(launcher.close)

    def _perform(self, action: FleetAction) -> None:
        self._watcher.acted(action)
        match action:
            case StartInstance(instance=name, group=group):
                self._start(name, group)
            case StopInstance(instance=name):
                self._ended(self._instances.pop(name))
            case RunStep(instance=name, step=step):
                one = self._instances[name]
                one.thread.do(partial(one.step, step, self._clock), partial(self._ran, name, step))
            case ExportState(instance=name):
                one = self._instances[name]
                one.thread.do(partial(one.export, action), self._core.feed)
            case ImportState(instance=name):
                one = self._instances[name]
                one.thread.do(partial(one.import_, action), self._core.feed)
            case Moved():
                log.info(
                    "request moved",
                    extra=fields(
                        source=action.source,
                        target=action.target,
                        why=action.why,
                        pause_ms=round(1000 * action.pause_s, 2),
                    ),
                )

    def _start(self, name: str, group: str) -> None:
        one = self._instances.get(name)
        if one is None:
            one = _Instance(name, self._launchers[group], self._loop)
            self._instances[name] = one
        self._unwatch(one)
        one.thread.do(one.start, partial(self._started, one, group))

    def _started(self, one: _Instance, group: str, result: Launched | LaunchError) -> None:
        if isinstance(result, LaunchError):
            log.error("instance not started", extra=fields(instance=one.name, reason=result))
            self._core.feed(InstanceNotStarted(instance=one.name, reason=result.message))
            return
        log.info(
            "instance started",
            extra=fields(
                instance=one.name,
                tier=result.tier.name.lower(),
                took_ms=round(1000 * result.took_s, 1),
            ),
        )
        self._watcher.started(result.tier.name.lower(), result.took_s)
        if result.sentinel is not None and self._instances.get(one.name) is one:
            self._loop.add_reader(result.sentinel, self._died, one)
        self._core.feed(InstanceStarted(instance=one.name, tier=result.tier, took_s=result.took_s))
        self._core.feed(TierChanged(group=group, tier=self._launchers[group].tier))

    def _died(self, one: _Instance) -> None:
        self._unwatch(one)
        log.warning("instance died", extra=fields(instance=one.name))
        self._core.feed(InstanceLost(instance=one.name))

    def _unwatch(self, one: _Instance) -> None:
        if one.launched is not None and one.launched.sentinel is not None:
            self._loop.remove_reader(one.launched.sentinel)

    def _ran(self, name: str, step: Step, ended: Ended) -> None:
        if isinstance(ended, StepFinished):
            self._watcher.step_took(step, ended.took_s)
        self._core.feed(StepEnded(instance=name, end=ended))

    def _ended(self, one: _Instance) -> "asyncio.Future[None]":
        """When its process has."""
        self._unwatch(one)
        done: asyncio.Future[None] = self._loop.create_future()

        def then(_: None) -> None:
            if not done.done():
                done.set_result(None)

        one.thread.do(one.end, then)
        one.thread.stop()
        return done

    def _measure(self) -> None:
        usages = [member.scheduler.cache.usage for member in self._fleet.members]
        known = [usage for usage in usages if usage is not None]
        self._watcher.load(len(self._fleet), sum(known) / len(known) if known else None)
        self._watcher.instances(len(self._fleet.members))
