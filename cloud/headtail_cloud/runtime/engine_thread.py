"""The thread that an engine lives in."""

import asyncio
import logging
import queue
import threading
from collections.abc import Callable

from headtail_cloud.core.actions import Step
from headtail_cloud.core.engine import Engine
from headtail_cloud.core.events import StepFailed, StepFinished
from headtail_fabric.clock import Clock
from headtail_fabric.errors import HeadtailError
from headtail_fabric.logs import fields

log = logging.getLogger(__name__)

Ended = StepFinished | StepFailed


class EngineThread:
    """Runs steps one after the other, and tells `done` in the loop how each has ended.

    A daemon thread: an engine that hangs in a native call can't keep the process alive.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        done: Callable[[Step, Ended], None],
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._loop = loop
        self._done = done
        self._steps: queue.SimpleQueue[Step | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="engine", daemon=True).start()

    def compute(self, step: Step) -> None:
        """Soon."""
        self._steps.put(step)

    def stop(self) -> None:
        """After the step that runs; nobody is told of it any more."""
        self._steps.put(None)

    def _run(self) -> None:
        while (step := self._steps.get()) is not None:
            ended = self._ended(step)
            try:
                self._loop.call_soon_threadsafe(self._done, step, ended)
            except RuntimeError:  # the loop is closed: it did not wait for this step
                log.info("step ended after its runtime", extra=fields(tasks=len(step.tasks)))
                return

    def _ended(self, step: Step) -> Ended:
        started_at = self._clock.now()
        try:
            results = self._engine.step(step.tasks)
        except HeadtailError as error:
            log.warning("step failed", extra=fields(tasks=len(step.tasks), reason=error))
            return StepFailed(step_id=step.id, message=error.message)
        except Exception:  # whatever an engine raises, the thread lives on
            log.exception("step failed", extra=fields(tasks=len(step.tasks)))
            return StepFailed(step_id=step.id, message="the engine failed")
        took_s = self._clock.now() - started_at
        return StepFinished(step_id=step.id, results=results, took_s=took_s)
