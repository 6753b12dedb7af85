"""A worker process: one engine, asked over a channel, until the other end closes it.

    python -m headtail_cloud.runtime.worker FD

One thread: what is heavy runs in native code, and several threads in several processes on the same
cores were two to eight times slower.
"""

import logging
import signal
import socket
import sys
import time
from collections.abc import Sequence

from headtail_cloud.core.engine import Engine, StateRef
from headtail_cloud.core.task import Task
from headtail_cloud.runtime import worker_message as said
from headtail_cloud.runtime.channel import Channel, ChannelClosedError
from headtail_cloud.runtime.engine_spec import EngineSpec, LoadedEngine
from headtail_cloud.runtime.worker_message import MessageCodec, Packed
from headtail_fabric import logs
from headtail_fabric.errors import HeadtailError
from headtail_fabric.logs import fields
from headtail_fabric.wire import Buffer

log = logging.getLogger(__name__)


class EngineHost:
    """Holds one engine, and answers what is asked of it."""

    def __init__(self) -> None:
        self._codec = MessageCodec(keep=False)
        self._engine: Engine | None = None

    def __repr__(self) -> str:
        return f"<EngineHost {self._engine!r}>"

    def answer(self, message: bytes, buffers: Sequence[Buffer]) -> Packed:
        """To one message with its buffers. Raises BadMessageError."""
        return self._answer(self._codec.to_worker(message, buffers), buffers)

    def load(self, spec: EngineSpec) -> Packed:
        """Load an engine, and say how that went."""
        started = time.perf_counter()
        try:
            loaded = spec.load()
        except HeadtailError as error:
            return self._codec.pack(said.NotReady(reason=error.message))
        except Exception as error:  # the parent tells its operator what a factory raised
            log.exception("engine not loaded", extra=fields(factory=spec.factory))
            return self._codec.pack(said.NotReady(reason=f"{type(error).__name__}: {error}"))
        return self.have(loaded, time.perf_counter() - started)

    def have(self, loaded: LoadedEngine, loaded_s: float) -> Packed:
        """Say that this engine is here, after so many seconds."""
        self._engine = loaded.engine
        profile = said.profile_of(loaded)
        return self._codec.pack(said.Ready(profile=profile, loaded_s=loaded_s))

    def _answer(self, asked: said.ToWorker, buffers: Sequence[Buffer]) -> Packed:
        if isinstance(asked, said.Load):
            return self.load(asked.spec)
        if self._engine is None or isinstance(asked, said.Fork):
            return self._codec.pack(said.Refused(reason="no engine is loaded here"))
        try:
            match asked:
                case said.Run(tasks=parts):
                    return self._step(self._engine, [part.task for part in parts])
                case said.Export(blocks=blocks, positions=positions):
                    state = self._engine.export(StateRef(blocks=blocks, positions=positions))
                    return self._codec.pack(said.Exported(), [state])
                case said.Import(blocks=blocks, positions=positions):
                    state = bytes(buffers[0]) if buffers else b""
                    self._engine.import_(StateRef(blocks=blocks, positions=positions), state)
                    return self._codec.pack(said.Imported())
        except HeadtailError as error:
            return self._codec.pack(said.Refused(reason=error.message))

    def _step(self, engine: Engine, tasks: Sequence[Task]) -> Packed:
        try:
            return self._codec.pack(said.ran(engine.step(tasks)))
        except HeadtailError as error:
            return self._codec.pack(said.StepBroke(reason=error.message))
        except Exception:  # whatever an engine raises, the worker lives on
            log.exception("step failed", extra=fields(tasks=len(tasks)))
            return self._codec.pack(said.StepBroke(reason="the engine failed"))


class Worker:
    """Answers one message of its channel after the other."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._host = EngineHost()

    def __repr__(self) -> str:
        return f"<Worker {self._host!r}>"

    def serve(self) -> None:
        """Until the other end is closed. Raises what `Channel.receive` does for bad messages."""
        try:
            while True:
                came = self._channel.receive()
                self._send(self._host.answer(came.message, came.buffers))
        except ChannelClosedError:
            log.debug("worker ends", extra=fields(host=self._host))

    def load(self, spec: EngineSpec) -> None:
        """Load an engine, and say how that went."""
        self._send(self._host.load(spec))

    def have(self, loaded: LoadedEngine) -> None:
        """Say that this engine is here: it was before the process was."""
        self._send(self._host.have(loaded, 0.0))

    def _send(self, packed: Packed) -> None:
        self._channel.send(packed.message, packed.buffers)


def leave_signals_to_the_parent() -> None:
    """A keyboard interrupt goes to all processes of a terminal: the parent stops its workers in
    order, by closing their channels."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def main() -> None:
    """For `python -m`; the argument is the descriptor of this end."""
    logs.configure()
    leave_signals_to_the_parent()
    Worker(Channel(socket.socket(fileno=int(sys.argv[1])))).serve()


if __name__ == "__main__":
    main()
