"""A zygote: a process that has done once what every worker begins with, and forks workers.

    python -m headtail_cloud.runtime.zygote FD

It imports the engine's modules; a *resident* one loads the engine, too, and its children share that
memory until somebody writes to it. It must be one thread when it forks: of all threads only one
goes on in a child, and what the others had locked stays locked. So an engine that starts threads is
refused here, and this process with it; workers then load it themselves.
"""

import gc
import logging
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Final, NoReturn

from headtail_cloud.runtime import worker_message as said
from headtail_cloud.runtime.channel import Channel, ChannelClosedError
from headtail_cloud.runtime.engine_spec import EngineSpec, LoadedEngine
from headtail_cloud.runtime.worker import Worker, leave_signals_to_the_parent
from headtail_cloud.runtime.worker_message import MessageCodec
from headtail_fabric import logs
from headtail_fabric.errors import HeadtailError
from headtail_fabric.logs import fields

log = logging.getLogger(__name__)

_TASKS: Final = Path("/proc/self/task")


class Zygote:
    """Loads once, forks often."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._codec = MessageCodec(keep=False)
        self._spec: EngineSpec | None = None
        self._resident: LoadedEngine | None = None

    def __repr__(self) -> str:
        return f"<Zygote {self._spec!r}, {'resident' if self._resident else 'bare'}>"

    def serve(self) -> None:
        """Until the other end is closed, or the engine can't be held here."""
        try:
            while True:
                came = self._channel.receive()
                match self._codec.to_worker(came.message, came.buffers):
                    case said.Load(spec=spec, resident=resident):
                        if not self._load(spec, resident=resident):
                            return
                    case said.Fork() if came.descriptors:
                        self._fork(came.descriptors[0])
                    case _:
                        self._say(said.Refused(reason="a zygote only loads and forks"))
        except ChannelClosedError:
            log.debug("zygote ends", extra=fields(spec=self._spec))

    def _load(self, spec: EngineSpec, *, resident: bool) -> bool:
        self._spec = spec
        try:
            make = spec.find()
            if not resident:
                self._say(said.Imported())
                return True
            threads = _threads()
            self._resident = make(**spec.options)
        except HeadtailError as error:
            self._say(said.NotReady(reason=error.message))
            return False
        except Exception as error:  # the parent tells its operator what a factory raised
            log.exception("engine not loaded", extra=fields(factory=spec.factory))
            self._say(said.NotReady(reason=f"{type(error).__name__}: {error}"))
            return False
        if _threads() > threads:
            self._say(said.NotReady(reason="the engine starts threads, and can't be forked"))
            return False
        # Collected now and never looked at again: a collection in a child would copy every page.
        gc.collect()
        gc.freeze()
        self._say(said.Ready(profile=said.profile_of(self._resident), loaded_s=0.0))
        return True

    def _fork(self, fd: int) -> None:
        pid = os.fork()
        if pid == 0:
            self._be_a_worker(fd)
        os.close(fd)
        self._say(said.Forked(pid=pid))

    def _be_a_worker(self, fd: int) -> NoReturn:
        """In the child, which must never come back to the loop of its parent."""
        status = 1
        try:
            self._channel.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            worker = Worker(Channel(socket.socket(fileno=fd)))
            if self._resident is not None:
                worker.have(self._resident)
            elif self._spec is not None:
                worker.load(self._spec)
            worker.serve()
            status = 0
        except Exception:  # the child's last words; nothing above may run in it
            log.exception("worker failed", extra=fields(spec=self._spec))
        finally:
            os._exit(status)

    def _say(self, message: said.FromWorker) -> None:
        packed = self._codec.pack(message)
        self._channel.send(packed.message, packed.buffers)


def _threads() -> int:
    return sum(1 for _ in _TASKS.iterdir())


def main() -> None:
    """For `python -m`; the argument is the descriptor of this end."""
    logs.configure()
    leave_signals_to_the_parent()
    # The kernel buries children: their parent in spirit is the process that asked for them.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    Zygote(Channel(socket.socket(fileno=int(sys.argv[1])))).serve()


if __name__ == "__main__":
    main()
