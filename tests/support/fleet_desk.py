"""A fleet with modelled engines under it and a clock that jumps; instances start, die and copy
state as they would, in memory."""

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from cloud_doubles import SEGMENT
from headtail_cloud.core.actions import Accept, EmitToken, Finish, Reject, Step
from headtail_cloud.core.engine import Capacity, StateError
from headtail_cloud.core.events import (
    RequestArrived,
    RequestCancelled,
    StepFailed,
    StepFinished,
    TimePassed,
)
from headtail_cloud.core.options import SchedulerOptions
from headtail_cloud.core.request import Request
from headtail_cloud.core.task import work_of
from headtail_cloud.dispatch.events import (
    ExportState,
    FleetAction,
    FleetEvent,
    ImportState,
    InstanceLost,
    InstanceNotStarted,
    InstanceStarted,
    Moved,
    RunStep,
    StartInstance,
    StateExported,
    StateImported,
    StateRefused,
    StepEnded,
    StopInstance,
)
from headtail_cloud.dispatch.fleet import Fleet
from headtail_cloud.dispatch.group import GroupPlan
from headtail_cloud.engines.modelled import ModelledEngine, Prices
from headtail_cloud.instances.autoscaler import ScalingOptions
from headtail_cloud.instances.ladder import Tier

LIMITS: Final = Capacity(max_batch=4, blocks=64, block_tokens=4)
START_S: Final = 0.02
COPY_S: Final = 0.003


def plan(
    *, least: int = 1, most: int = 2, capacity: Capacity = LIMITS, prices: Prices | None = None,
    name: str = "group", prefills: int = 0, keep_alive_s: float = 300.0, stable_s: float = 60.0,
    target: float = 4.0,
) -> GroupPlan:  # fmt: skip
    """A group that serves the modelled segment and text model."""
    return GroupPlan(
        name=name,
        serves=frozenset({SEGMENT, "lm@1"}),
        capacity=capacity,
        estimate=(prices or Prices()).of,
        scaling=ScalingOptions(least=least, most=most, stable_s=stable_s, target=target),
        prefills=prefills,
        keep_alive_s=keep_alive_s,
    )


@dataclass(frozen=True, slots=True, order=True)
class _Due:
    at: float
    number: int


class FleetDesk:
    """`deadly`: requests that kill the instance they run on. `start_fails`: the next starts that
    do. `dead`: instances that answer nothing."""

    def __init__(
        self,
        *plans: GroupPlan,
        options: SchedulerOptions | None = None,
        prices: Prices | None = None,
        deadly: Iterable[str] = (),
    ) -> None:
        self.plans = {one.name: one for one in plans or (plan(),)}
        self.fleet = Fleet(self.plans.values(), options)
        self.prices = prices or Prices()
        self.deadly = set(deadly)
        self.start_fails = 0
        self.now = 0.0
        self.engines: dict[str, ModelledEngine] = {}
        self.starts: list[str] = []
        self.stops: list[str] = []
        self.steps: dict[str, list[Step]] = defaultdict(list)
        self.accepted: dict[str, Accept] = {}
        self.rejected: dict[str, Reject] = {}
        self.finished: dict[str, Finish] = {}
        self.tokens: dict[str, list[int]] = defaultdict(list)
        self.moved: list[Moved] = []
        self.copies = 0
        self._free_at: dict[str, float] = defaultdict(float)
        self._plan: list[tuple[_Due, FleetEvent | _Copied]] = []
        self._planned = 0

    def at(self, when: float, *events: "FleetEvent | _Copied") -> None:
        for event in events:
            self._planned += 1
            heapq.heappush(self._plan, (_Due(when, self._planned), event))

    def arrive(self, when: float, *requests: Request) -> None:
        self.at(when, *(RequestArrived(request=request) for request in requests))

    def cancel(self, when: float, request_id: str) -> None:
        self.at(when, RequestCancelled(request_id=request_id))

    def kill(self, instance: str) -> None:
        """Now: what it holds is gone, and what it computes never comes."""
        del self.engines[instance]
        held = [entry for entry in self._plan if _of(entry[1]) == instance]
        self._plan = [entry for entry in self._plan if _of(entry[1]) != instance]
        heapq.heapify(self._plan)
        for _, event in held:
            if isinstance(event, StepEnded):
                failed = StepFailed(
                    step_id=event.end.step_id, message="the worker is lost", state_lost=True
                )
                self.at(self.now, StepEnded(instance=instance, end=failed))
            elif isinstance(event, _Copied):
                self.at(self.now, StateRefused(move=event.move, reason="the worker is lost"))
            elif isinstance(event, InstanceStarted):
                self.at(self.now, InstanceNotStarted(instance=instance, reason="killed"))
        self.at(self.now, InstanceLost(instance=instance))

    def run(self, until: float) -> None:
        """Up to that time; timers at it included."""
        for event in self._events(until):
            self._feed(event)
        self.now = until

    def _feed(self, event: FleetEvent) -> None:
        for action in self.fleet.on_event(event, self.now):
            self._act(action)

    def _events(self, until: float) -> Iterator[FleetEvent]:
        while True:
            timer = self.fleet.next_timer(self.now)
            planned = self._plan[0][0].at if self._plan else float("inf")
            at = max(self.now, min(planned, timer))
            if at > until:
                return
            self.now = at
            if planned <= at:
                event = heapq.heappop(self._plan)[1]
                yield event.inner if isinstance(event, _Copied) else event
            else:
                yield TimePassed()

    def _act(self, action: FleetAction) -> None:
        match action:
            case RunStep():
                self._step(action.instance, action.step)
            case StartInstance():
                self._start(action.instance, action.group)
            case StopInstance(instance=instance):
                self.stops.append(instance)
                self.engines.pop(instance, None)
            case ExportState() | ImportState():
                self._copy(action)
            case Accept():
                assert action.request_id not in self.accepted
                self.accepted[action.request_id] = action
            case Reject():
                self.rejected[action.request_id] = action
            case EmitToken(request_id=request_id, token=token):
                self.tokens[request_id].append(token)
            case Finish():
                assert action.request_id not in self.finished, "ended twice"
                self.finished[action.request_id] = action
            case Moved():
                self.moved.append(action)

    def _start(self, instance: str, group: str) -> None:
        self.starts.append(instance)
        if self.start_fails:
            self.start_fails -= 1
            self.at(self.now + START_S, InstanceNotStarted(instance=instance, reason="no memory"))
            return
        self.engines[instance] = ModelledEngine(
            limits=self.plans[group].capacity, prices=self.prices
        )
        self.at(
            self.now + START_S,
            InstanceStarted(instance=instance, tier=Tier.RESIDENT, took_s=START_S),
        )

    def _step(self, instance: str, step: Step) -> None:
        self.steps[instance].append(step)
        took_s = self.prices.of(work_of(step.tasks))
        end: StepFinished | StepFailed
        if instance not in self.engines:
            end = StepFailed(step_id=step.id, message="lost", state_lost=True)
        elif self.deadly & {task.request_id for task in step.tasks}:
            del self.engines[instance]
            end = StepFailed(step_id=step.id, message="lost", state_lost=True)
        else:
            results = self.engines[instance].step(step.tasks)
            end = StepFinished(step_id=step.id, results=results, took_s=took_s)
        self.at(self._soon(instance, took_s), StepEnded(instance=instance, end=end))

    def _copy(self, action: ExportState | ImportState) -> None:
        """After what the instance does already, as in a real one's queue."""
        engine = self.engines.get(action.instance)
        event: FleetEvent
        try:
            if engine is None:
                raise StateError("the worker is lost")
            if isinstance(action, ExportState):
                data = engine.export(action.state)
                event = StateExported(move=action.move, data=data)
            else:
                engine.import_(action.state, action.data)
                event = StateImported(move=action.move)
        except StateError as error:
            event = StateRefused(move=action.move, reason=error.message)
        self.copies += 1
        copied = _Copied(action.instance, action.move, event)
        self.at(self._soon(action.instance, COPY_S), copied)

    def _soon(self, instance: str, seconds: float) -> float:
        self._free_at[instance] = max(self.now, self._free_at[instance]) + seconds
        return self._free_at[instance]


@dataclass(frozen=True, slots=True)
class _Copied:
    instance: str
    move: int
    inner: FleetEvent


def _of(event: object) -> str | None:
    return getattr(event, "instance", None)
