"""The scheduler that serves, on a clock that jumps from event to event."""

import heapq
from collections.abc import Callable, Sequence

import numpy as np

from headtail.bench.cloud.mix import Arrivals, End
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
    costs: CostModel | None = None,
    spent_s: Callable[[], float] = lambda: 0.0,
) -> dict[str, End]:
    """What became of each. `costs` learn what iterations took; by how much `spent_s` has grown is
    what the scheduler's own work takes of the clock."""
    scheduler = Scheduler(engine.capacity(), costs or CostModel(engine.estimate), rule)
    plan: list[tuple[float, int, Event]] = [
        (at, number, RequestArrived(request=request))
        for number, (at, request) in enumerate(arrivals)
    ]
    heapq.heapify(plan)
    number, now = len(plan), 0.0
    ended: dict[str, End] = {}
    while True:
        timer = scheduler.next_timer()
        at = min(plan[0][0] if plan else np.inf, np.inf if timer is None else timer)
        if at == np.inf:
            return ended
        now = max(now, at)
        event = heapq.heappop(plan)[2] if plan and plan[0][0] <= at else TimePassed()
        before_s = spent_s()
        actions = scheduler.on_event(event, now)
        now += spent_s() - before_s
        for action in actions:
            match action:
                case StartStep(step=begun):
                    results, took_s = step(begun.tasks)
                    done = StepFinished(step_id=begun.id, results=results, took_s=took_s)
                    number += 1
                    heapq.heappush(plan, (now + took_s, number, done))
                case Finish(request_id=request_id) | Reject(request_id=request_id):
                    ended[request_id] = end_of(action)


def end_of(action: Finish | Reject) -> End:
    """What that says became of a request."""
    if isinstance(action, Reject):
        return End.REFUSED
    return End.IN_TIME if action.on_time else End.LATE
