"""The thread that an engine lives in, and how a step in it ends."""

import asyncio
import logging
import queue
import threading
from collections.abc import Callable
from typing import TypeVar

from headtail_cloud.core.actions import Step
from headtail_cloud.core.engine import Engine, EngineLostError
from headtail_cloud.core.events import StepFailed, StepFinished
from headtail_fabric.clock import Clock
from headtail_fabric.errors import HeadtailError
from headtail_fabric.logs import fields

log = logging.getLogger(__name__)

_T = TypeVar("_T")
Ended = StepFinished | StepFailed


class EngineThread:
    """Does one thing after the other, and tells the loop what came of each.

    A daemon thread: an engine that hangs in a native call can't keep the process alive.
    """

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def do(self, work: Callable[[], _T], then: Callable[[_T], None]) -> None:
        """Soon; `then` is called in the loop with what `work` gives, which raises nothing."""

        def both() -> None:
            result = work()
            try:
                self._loop.call_soon_threadsafe(then, result)
            except RuntimeError:  # the loop is closed: it did not wait for this
                log.info("work ended after its runtime")

        self._work.put(both)

    def stop(self) -> None:
        """After what it does; it does nothing of what waits."""
        self._work.put(None)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()


def run_step(engine: Engine, step: Step, clock: Clock) -> Ended:
    """How it ends, whatever the engine raises."""
    started_at = clock.now()
    try:
        results = engine.step(step.tasks)
    except EngineLostError as error:
        return StepFailed(
            step_id=step.id, message=error.message, state_lost=True, begun=error.begun
        )
    except HeadtailError as error:
        log.warning("step failed", extra=fields(tasks=len(step.tasks), reason=error))
        return StepFailed(step_id=step.id, message=error.message)
    except Exception:  # whatever an engine raises, its thread lives on
        log.exception("step failed", extra=fields(tasks=len(step.tasks)))
        return StepFailed(step_id=step.id, message="the engine failed")
    return StepFinished(step_id=step.id, results=results, took_s=clock.now() - started_at)
