"""A scheduler with a modelled engine under it and a clock that jumps: what a server does, in
memory."""

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from headtail_cloud.core.actions import Accept, Action, EmitToken, Finish, Reject, StartStep, Step
from headtail_cloud.core.cost_model import CostModel
from headtail_cloud.core.engine import Capacity
from headtail_cloud.core.events import (
    DrainAsked,
    Event,
    RequestArrived,
    RequestCancelled,
    StepFailed,
    StepFinished,
    TimePassed,
)
from headtail_cloud.core.options import SchedulerOptions
from headtail_cloud.core.request import Request, Segment, TailRequest, TextRequest
from headtail_cloud.core.scheduler import Scheduler
from headtail_cloud.core.task import work_of
from headtail_cloud.engines.modelled import ModelledEngine, Prices, next_token
from headtail_fabric.errors import HeadtailError

SEGMENT = Segment("yolo@1.0", "tail")


def tail(
    number: int, *, tenant: str = "a", deadline_s: float = 0.05, **more: object
) -> TailRequest:
    """A tail of one segment; its input is its own id."""
    request_id = f"tail-{number}"
    fields: dict[str, Any] = {"chain": (SEGMENT,), "input": request_id, **more}
    return TailRequest(id=request_id, tenant=tenant, deadline_s=deadline_s, **fields)


def text(number: int, prompt: Iterable[int], *, tenant: str = "a", **more: Any) -> TextRequest:
    """A text without haste."""
    fields: dict[str, Any] = {
        "max_tokens": 4,
        "ttft_s": 60.0,
        "tbt_s": 10.0,
        "model": "lm@1",
        **more,
    }
    return TextRequest(id=f"text-{number}", tenant=tenant, prompt=tuple(prompt), **fields)


def said(prompt: Iterable[int], tokens: int) -> list[int]:
    """What the modelled engine says to a prompt."""
    whole = list(prompt)
    start = len(whole)
    for _ in range(tokens):
        whole.append(next_token(whole))
    return whole[start:]


@dataclass(frozen=True, slots=True, order=True)
class _Due:
    at: float
    number: int


class Desk:
    """Arrivals and cancellations at their times; steps take what the engine's prices say. At equal
    times what was planned first happens first."""

    def __init__(
        self,
        *,
        capacity: Capacity | None = None,
        options: SchedulerOptions | None = None,
        prices: Prices | None = None,
        engine: ModelledEngine | None = None,
    ) -> None:
        limits = capacity or Capacity(max_batch=8, blocks=64, block_tokens=4)
        self.engine = engine or ModelledEngine(limits=limits, prices=prices or Prices())
        self.costs = CostModel(self.engine.estimate)
        self.scheduler = Scheduler(self.engine.capacity(), self.costs, options)
        self.now = 0.0
        self.steps: list[Step] = []
        self.started_at: list[float] = []
        self.accepted: dict[str, Accept] = {}
        self.rejected: dict[str, Reject] = {}
        self.finished: dict[str, Finish] = {}
        self.tokens: dict[str, list[int]] = defaultdict(list)
        self.token_times: dict[str, list[float]] = defaultdict(list)
        self._plan: list[tuple[_Due, Event]] = []
        self._planned = 0

    def at(self, when: float, *events: Event) -> None:
        """Let those happen then."""
        for event in events:
            self._planned += 1
            heapq.heappush(self._plan, (_Due(when, self._planned), event))

    def arrive(self, when: float, *requests: Request) -> None:
        self.at(when, *(RequestArrived(request=request) for request in requests))

    def cancel(self, when: float, request_id: str) -> None:
        self.at(when, RequestCancelled(request_id=request_id))

    def drain(self, when: float) -> None:
        self.at(when, DrainAsked())

    def run(self, *, until: float = float("inf"), most_steps: int = 100_000) -> None:
        """Until nothing is planned and nothing runs."""
        for event in self._events(until):
            for action in self.scheduler.on_event(event, self.now):
                self._act(action)
            assert len(self.steps) < most_steps, "the scheduler does not come to an end"

    def _events(self, until: float) -> Iterator[Event]:
        while True:
            timer = self.scheduler.next_timer()
            planned = self._plan[0][0].at if self._plan else float("inf")
            at = min(planned, float("inf") if timer is None else timer)
            if at == float("inf") or at > until:
                return
            self.now = max(self.now, at)
            yield heapq.heappop(self._plan)[1] if planned <= at else TimePassed()

    def _act(self, action: Action) -> None:
        match action:
            case StartStep(step=step):
                self._start(step)
            case EmitToken(request_id=request_id, token=token):
                self.tokens[request_id].append(token)
                self.token_times[request_id].append(self.now)
            case Accept():
                assert action.request_id not in self.accepted
                self.accepted[action.request_id] = action
            case Reject():
                self.rejected[action.request_id] = action
            case Finish():
                assert action.request_id not in self.finished, "ended twice"
                assert action.request_id in self.accepted
                self.finished[action.request_id] = action

    def _start(self, step: Step) -> None:
        self.steps.append(step)
        self.started_at.append(self.now)
        took_s = self.engine.prices.of(work_of(step.tasks))
        done: Event
        try:
            results = self.engine.step(step.tasks)
        except HeadtailError as error:
            done = StepFailed(step_id=step.id, message=error.message)
        else:
            done = StepFinished(step_id=step.id, results=results, took_s=took_s)
        self.at(self.now + took_s, done)
