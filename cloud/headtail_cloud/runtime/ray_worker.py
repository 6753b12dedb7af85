"""A worker that is a Ray actor, as those who ask it see it."""

import contextlib
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayError

from headtail_cloud.runtime import worker_message as said
from headtail_cloud.runtime.channel import ChannelClosedError, ChannelSilentError, NotSentError
from headtail_cloud.runtime.ray_actor import LIFE, as_arrays, as_buffers
from headtail_cloud.runtime.ray_bell import DeathBell
from headtail_cloud.runtime.worker_message import MessageCodec, Packed
from headtail_cloud.runtime.worker_process import WorkerStartError
from headtail_fabric.wire import Buffer


class ActorWorker:
    """An `EngineActor`, asked by calls: an actor that dies is a worker that is gone. For one thread
    at a time, but for `kill`."""

    def __init__(self, actor: Any, *, start_limit_s: float) -> None:
        """`actor`: its handle; it may not have been placed yet. Raises WorkerStartError."""
        self._actor = actor
        self._codec = MessageCodec(keep=True)
        self._bell = DeathBell()
        try:
            self._life = actor.remain.options(concurrency_group=LIFE).remote()
            self.pid: int = ray.get(actor.pid.remote(), timeout=start_limit_s)
        except RayError as error:
            self.close()
            raise WorkerStartError(_why_not_placed(error, start_limit_s)) from None
        self._life.future().add_done_callback(lambda _: self._bell.ring())

    def __repr__(self) -> str:
        return f"<ActorWorker {self.pid}>"

    @property
    def sentinel(self) -> int:
        """A descriptor that can be read when the actor has died."""
        return self._bell.handle

    def ask(self, packed: Packed, timeout_s: float) -> said.FromWorker:
        """One question, one answer. Raises ChannelClosedError, NotSentError, ChannelSilentError,
        BadMessageError: the actor is of no use any more."""
        return self._codec.from_worker(*self._said(packed, timeout_s))

    def state(self, packed: Packed, timeout_s: float) -> bytes | said.FromWorker:
        """As `ask`; an exported state's bytes, or what it said instead."""
        message, buffers = self._said(packed, timeout_s)
        answer = self._codec.from_worker(message, buffers)
        if isinstance(answer, said.Exported) and buffers:
            return bytes(buffers[0])
        return answer

    def kill(self) -> None:
        """At once, whatever it does. Not an error for one that is dead."""
        # Without a connection a call would make one; the cluster ends the actors of one that left.
        if ray.is_initialized():
            with contextlib.suppress(RayError):
                ray.kill(self._actor)

    def close(self) -> None:
        """It holds nothing that it would have to put away."""
        self.kill()
        self._bell.close()

    def _said(self, packed: Packed, timeout_s: float) -> tuple[bytes, list[Buffer]]:
        if self._bell.rung or not ray.is_initialized():
            raise NotSentError("the actor was gone before it was asked")
        try:
            message, arrays = ray.get(
                self._actor.ask.remote(packed.message, as_arrays(packed.buffers)),
                timeout=timeout_s,
            )
        except GetTimeoutError:
            raise ChannelSilentError("no answer in time") from None
        except RayError as error:
            raise ChannelClosedError(f"the actor failed: {_briefly(error)}") from None
        return message, as_buffers(arrays)


def _why_not_placed(error: RayError, limit_s: float) -> str:
    if not isinstance(error, GetTimeoutError):
        return f"the actor could not be started: {_briefly(error)}"
    free = {name: n for name, n in ray.available_resources().items() if ":" not in name}
    return f"no actor was placed and started within {limit_s:g} s; free in the cluster: {free}"


def _briefly(error: RayError) -> str:
    """Ray's messages are pages; the cause is in the first lines."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
