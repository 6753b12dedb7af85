"""The scheduler that serves, on a clock that jumps from event to event."""

import heapq
from collections.abc import Callable, Sequence

import numpy as np

from headtail.bench.cloud.mix import Arrivals
from headtail_cloud.core.actions import Finish, Reject, StartStep
from headtail_cloud.core.cost_model import CostModel
from headtail_cloud.core.engine import Engine
from headtail_cloud.core.events import Event, RequestArrived, StepFinished, TimePassed
from headtail_cloud.core.options import SchedulerOptions
from headtail_cloud.core.scheduler import Scheduler
from headtail_cloud.core.task import Task, TaskResult

Step = Callable[[Sequence[Task]], tuple[Sequence[TaskResult], float]]
"""An iteration's results, and the seconds it takes."""


def served(
    arrivals: Arrivals,
    rule: SchedulerOptions,
    engine: Engine,
    step: Step,
    *,
    spent_s: Callable[[], float] = lambda: 0.0,
) -> dict[str, bool]:
    """Whether each was in time. By how much `spent_s` has grown is what the scheduler's own work
    takes of the clock."""
    scheduler = Scheduler(engine.capacity(), CostModel(engine.estimate), rule)
    plan: list[tuple[float, int, Event]] = [
        (at, number, RequestArrived(request=request))
        for number, (at, request) in enumerate(arrivals)
    ]
    heapq.heapify(plan)
    number, now = len(plan), 0.0
    on_time: dict[str, bool] = {}
    while True:
        timer = scheduler.next_timer()
        at = min(plan[0][0] if plan else np.inf, np.inf if timer is None else timer)
        if at == np.inf:
            return on_time
        now = max(now, at)
        event = heapq.heappop(plan)[2] if plan and plan[0][0] <= at else TimePassed()
        before_s = spent_s()
        actions = scheduler.on_event(event, now)
        now += spent_s() - before_s
        for action in actions:
            match action:
                case StartStep(step=begun):
                    results, took_s = step(begun.tasks)
                    ended = StepFinished(step_id=begun.id, results=results, took_s=took_s)
                    number += 1
                    heapq.heappush(plan, (now + took_s, number, ended))
                case Finish(request_id=request_id):
                    on_time[request_id] = action.on_time
                case Reject(request_id=request_id):
                    on_time[request_id] = False
