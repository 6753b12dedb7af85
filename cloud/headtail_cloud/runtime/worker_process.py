"""Workers, as those who ask them see them; and processes that are: started afresh, or forked by a
zygote."""

import contextlib
import logging
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from typing import Final, Protocol, Self

from headtail_cloud.runtime import channel as channels
from headtail_cloud.runtime import worker_message as said
from headtail_cloud.runtime.channel import (
    BadMessageError,
    Channel,
    ChannelClosedError,
    ChannelSilentError,
    Received,
)
from headtail_cloud.runtime.engine_spec import EngineSpec
from headtail_cloud.runtime.worker_message import MessageCodec, Packed, Profile
from headtail_fabric.errors import ResourceError
from headtail_fabric.logs import fields

log = logging.getLogger(__name__)

BROKEN: Final = (ChannelClosedError, ChannelSilentError, BadMessageError)
"""What `ask` raises when the process is of no use any more."""

ONE_THREAD: Final = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)
_LONGEST_GOODBYE_S: Final = 2.0


class WorkerStartError(ResourceError):
    """A worker process could not be started, or could not load its engine. The message says why;
    the log has what the process wrote."""


class AskedWorker(Protocol):
    """A worker, wherever it runs. For one thread at a time, but for `kill`."""

    @property
    def pid(self) -> int:
        """Of its process, on the machine where it runs."""
        ...

    def ask(self, packed: Packed, timeout_s: float) -> said.FromWorker:
        """One question, one answer. Raises what is in `BROKEN`."""
        ...

    def state(self, packed: Packed, timeout_s: float) -> bytes | said.FromWorker:
        """As `ask`; an exported state's bytes, or what it said instead."""
        ...

    def kill(self) -> None:
        """At once, whatever it does. Not an error for one that is dead."""
        ...

    def close(self) -> None:
        """It ends, and nothing is kept of it."""
        ...


class WorkerProcess:
    """A process and the channel to it. For one thread at a time, but for `kill`."""

    def __init__(self, pid: int, end: socket.socket, child: subprocess.Popen[bytes] | None) -> None:
        """`child`: if it is one of this process; a zygote's children are not."""
        self.pid = pid
        self._child = child
        self._channel = Channel(end)
        self._codec = MessageCodec(keep=True)
        self.handle = os.pidfd_open(pid)

    def __repr__(self) -> str:
        return f"<WorkerProcess {self.pid}>"

    @classmethod
    def fresh(cls, module: str) -> Self:
        """Python anew, with that module of this package as its program."""
        ours, theirs = channels.pair()
        with theirs:
            try:
                child = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                    [
                        sys.executable,
                        "-m",
                        f"headtail_cloud.runtime.{module}",
                        str(theirs.fileno()),
                    ],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    env=_environment(os.environ),
                )
            except OSError as error:
                ours.close()
                raise WorkerStartError(f"no worker process: {error}") from None
        return cls(child.pid, ours, child)

    def ask(self, packed: Packed, timeout_s: float, *descriptors: int) -> said.FromWorker:
        """One question, one answer. Raises what is in `BROKEN`."""
        self._channel.send(packed.message, packed.buffers, descriptors)
        return self.hear(timeout_s)

    def hear(self, timeout_s: float) -> said.FromWorker:
        """What it says of itself. Raises what is in `BROKEN`."""
        return self._understood(self._channel.receive(timeout_s))

    def state(self, packed: Packed, timeout_s: float) -> bytes | said.FromWorker:
        """As `ask`; an exported state's bytes, or what it said instead."""
        self._channel.send(packed.message, packed.buffers)
        came = self._channel.receive(timeout_s)
        answer = self._understood(came)
        if isinstance(answer, said.Exported) and came.buffers:
            return bytes(came.buffers[0])
        return answer

    def kill(self) -> None:
        """At once, whatever it does. Not an error for one that is dead."""
        with contextlib.suppress(ProcessLookupError, OSError):
            signal.pidfd_send_signal(self.handle, signal.SIGKILL)

    def close(self) -> None:
        """It ends when it has done what it does; one that takes long is killed."""
        self._channel.close()
        if self._child is not None:
            try:
                self._child.wait(_LONGEST_GOODBYE_S)
            except subprocess.TimeoutExpired:
                self.kill()
                self._child.wait()
        elif not _ended(self.handle, _LONGEST_GOODBYE_S):
            self.kill()
        os.close(self.handle)

    def _understood(self, came: Received) -> said.FromWorker:
        for fd in came.descriptors:
            os.close(fd)
        return self._codec.from_worker(came.message, came.buffers)


class ZygoteProcess:
    """A zygote of one engine. For one thread at a time."""

    def __init__(self, spec: EngineSpec, *, resident: bool, start_limit_s: float) -> None:
        """Raises WorkerStartError."""
        self._limit_s = start_limit_s
        self._codec = MessageCodec(keep=True)
        self._process = WorkerProcess.fresh("zygote")
        self.profile: Profile | None = None
        """Of a resident one."""
        try:
            load = self._codec.pack(said.Load(spec=spec, resident=resident))
            answer = self._process.ask(load, start_limit_s)
        except BROKEN as error:
            self.stop()
            raise WorkerStartError(f"the zygote failed: {error.message}") from None
        if isinstance(answer, said.Ready):
            self.profile = answer.profile
        elif not isinstance(answer, said.Imported):
            self.stop()
            raise WorkerStartError(_reason(answer))

    def __repr__(self) -> str:
        return f"<ZygoteProcess {self._process!r}>"

    @property
    def pid(self) -> int:
        return self._process.pid

    def fork(self) -> tuple[WorkerProcess, Profile]:
        """A new worker with its engine. Raises WorkerStartError."""
        ours, theirs = channels.pair()
        try:
            with theirs:
                fork = self._codec.pack(said.Fork())
                answer = self._process.ask(fork, self._limit_s, theirs.fileno())
            if not isinstance(answer, said.Forked):
                raise WorkerStartError(_reason(answer))
            worker = WorkerProcess(answer.pid, ours, None)
        except (*BROKEN, OSError) as error:
            ours.close()
            raise WorkerStartError(f"the zygote failed: {error}") from None
        except WorkerStartError:
            ours.close()
            raise
        return worker, ready(worker, self._limit_s)

    def stop(self) -> None:
        """Its children live on."""
        self._process.kill()
        self._process.close()


def start_fresh(spec: EngineSpec, *, start_limit_s: float) -> tuple[WorkerProcess, Profile]:
    """A worker without a zygote. Raises WorkerStartError."""
    worker = WorkerProcess.fresh("worker")
    return worker, load_engine(worker, spec, start_limit_s=start_limit_s)


def load_engine(worker: AskedWorker, spec: EngineSpec, *, start_limit_s: float) -> Profile:
    """Have a worker load it; one that can't is ended. Raises WorkerStartError."""
    load = MessageCodec(keep=True).pack(said.Load(spec=spec))
    try:
        answer = worker.ask(load, start_limit_s)
    except BROKEN as error:
        raise _given_up(worker, error.message) from None
    return _profile(worker, answer)


def ready(worker: WorkerProcess, limit_s: float) -> Profile:
    """What a forked worker says when it has its engine. Raises WorkerStartError."""
    try:
        answer = worker.hear(limit_s)
    except BROKEN as error:
        raise _given_up(worker, error.message) from None
    return _profile(worker, answer)


def _profile(worker: AskedWorker, answer: said.FromWorker) -> Profile:
    if not isinstance(answer, said.Ready):
        raise _given_up(worker, _reason(answer))
    log.info("worker ready", extra=fields(pid=worker.pid, loaded_s=round(answer.loaded_s, 4)))
    return answer.profile


def _given_up(worker: AskedWorker, reason: str) -> WorkerStartError:
    worker.kill()
    worker.close()
    return WorkerStartError(f"the worker failed: {reason}")


def _reason(answer: said.FromWorker) -> str:
    return getattr(answer, "reason", f"it said {type(answer).__name__}")


def _environment(ours: Mapping[str, str]) -> dict[str, str]:
    """With this process's modules, and one thread: a worker is one."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    return {**ours, "PYTHONPATH": path, **dict.fromkeys(ONE_THREAD, "1")}


def _ended(handle: int, timeout_s: float) -> bool:
    return bool(select.select([handle], [], [], timeout_s)[0])
