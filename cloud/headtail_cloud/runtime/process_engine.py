"""An engine in a process of its own, as the engine thread sees it: the same seam."""

import logging
import time
from collections.abc import Callable, Sequence

from headtail_cloud.core.engine import (
    Capacity,
    EngineFailedError,
    EngineLostError,
    StateError,
    StateRef,
)
from headtail_cloud.core.task import Task, TaskResult
from headtail_cloud.core.work import Work
from headtail_cloud.runtime import worker_message as said
from headtail_cloud.runtime.channel import NotSentError
from headtail_cloud.runtime.worker_message import MessageCodec, Profile
from headtail_cloud.runtime.worker_process import BROKEN, AskedWorker
from headtail_fabric.errors import HeadtailError
from headtail_fabric.logs import fields

log = logging.getLogger(__name__)

_Answer = said.FromWorker | bytes


class ProcessEngine:
    """Asks a worker. One that dies, hangs for longer than `limit_s`, or says what can't be is
    killed, and raises EngineLostError from then on."""

    def __init__(self, process: AskedWorker, profile: Profile, *, limit_s: float) -> None:
        self._process = process
        self._profile = profile
        self._limit_s = limit_s
        self._codec = MessageCodec(keep=True)
        self._lost: str | None = None

    def __repr__(self) -> str:
        return f"<ProcessEngine {self._process!r}{', lost' if self._lost else ''}>"

    @property
    def pid(self) -> int:
        return self._process.pid

    def capacity(self) -> Capacity:
        return self._profile.capacity

    def estimate(self, work: Work) -> float:
        return self._profile.estimate(work)

    def step(self, tasks: Sequence[Task]) -> list[TaskResult]:
        """Raises EngineFailedError, EngineLostError."""
        answer = self._ask(lambda: self._process.ask(self._codec.run(tasks), self._limit_s))
        match answer:
            case said.Ran(results=parts):
                return [part.result for part in parts]
            case said.StepBroke(reason=reason):
                raise EngineFailedError(reason)
        raise self._give_up(f"it said {type(answer).__name__} to a step")

    def export(self, state: StateRef) -> bytes:
        """Raises StateError, EngineLostError."""
        asked = self._codec.pack(said.Export(blocks=state.blocks, positions=state.positions))
        answer = self._ask(lambda: self._process.state(asked, self._limit_s))
        if isinstance(answer, bytes):
            return answer
        raise self._refusal(answer)

    def import_(self, state: StateRef, data: bytes) -> None:
        """Raises StateError, EngineLostError."""
        message = said.Import(blocks=state.blocks, positions=state.positions)
        asked = self._codec.pack(message, [data])
        answer = self._ask(lambda: self._process.ask(asked, self._limit_s))
        if not isinstance(answer, said.Imported):
            raise self._refusal(answer)

    def kill(self) -> None:
        """From any thread: what is asked then raises EngineLostError."""
        self._process.kill()

    def close(self) -> None:
        self._process.close()

    def _ask(self, ask: Callable[[], _Answer]) -> _Answer:
        if self._lost is not None:
            raise EngineLostError(self._lost, begun=False)
        started = time.perf_counter()
        try:
            return ask()
        except BROKEN as error:
            after_s = round(time.perf_counter() - started, 3)
            log.warning(
                "worker lost", extra=fields(pid=self.pid, reason=error.message, after_s=after_s)
            )
            begun = not isinstance(error, NotSentError)
            raise self._give_up(error.message, begun=begun) from None

    def _refusal(self, answer: _Answer) -> HeadtailError:
        if isinstance(answer, said.Refused):
            return StateError(answer.reason)
        return self._give_up(f"it said {type(answer).__name__} of a state")

    def _give_up(self, reason: str, *, begun: bool = True) -> EngineLostError:
        self._lost = f"the worker process is lost: {reason}"
        self._process.kill()
        return EngineLostError(self._lost, begun=begun)
