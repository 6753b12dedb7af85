"""Starting instances of one engine, each from as far up the ladder as there is something."""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from headtail_cloud.core.engine import Engine
from headtail_cloud.instances.ladder import Tier
from headtail_cloud.runtime.engine_spec import EngineSpec
from headtail_cloud.runtime.process_engine import ProcessEngine
from headtail_cloud.runtime.worker_message import Profile
from headtail_cloud.runtime.worker_process import (
    WorkerProcess,
    WorkerStartError,
    ZygoteProcess,
    start_fresh,
)
from headtail_fabric.clock import Clock, MonotonicClock
from headtail_fabric.errors import ResourceError
from headtail_fabric.logs import fields

log = logging.getLogger(__name__)

ZygoteKind = Literal["resident", "bare", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """An engine that is ready. `sentinel`: a descriptor that can be read when it has died; `close`
    ends it."""

    engine: Engine
    tier: Tier
    took_s: float
    sentinel: int | None
    close: Callable[[], None]


class LaunchError(ResourceError):
    """An instance could not be started; the message says why. It is tried again a few times, and
    whenever it is asked for."""


class Launcher(Protocol):
    """Starts instances of one group. Safe to call from several threads; may take long."""

    @property
    def tier(self) -> Tier:
        """Where instances start from now."""
        ...

    def launch(self) -> Launched:
        """Raises LaunchError."""
        ...

    def close(self) -> None:
        """What it keeps to start instances from is given up; they live on."""
        ...


class PreparedLauncher(Launcher, Protocol):
    """One that can say what its instances will be like."""

    def prepare(self) -> Profile:
        """Have something ready to start from. Raises WorkerStartError."""
        ...


class ProcessLauncher:
    """Worker processes of this machine: forked by a zygote where it can be, else fresh ones."""

    def __init__(
        self,
        spec: EngineSpec,
        *,
        zygote: ZygoteKind = "resident",
        start_limit_s: float = 60.0,
        step_limit_s: float = 60.0,
        clock: Clock | None = None,
    ) -> None:
        self._spec = spec
        self._kind = zygote
        self._start_limit_s = start_limit_s
        self._step_limit_s = step_limit_s
        self._clock = clock or MonotonicClock()
        self._lock = threading.Lock()
        self._zygote: ZygoteProcess | None = None
        self._spare: tuple[WorkerProcess, Profile] | None = None
        self._closed = False

    def __repr__(self) -> str:
        return f"<ProcessLauncher {self._spec.factory}, {self._zygote!r}>"

    @property
    def tier(self) -> Tier:
        """Where instances start from now."""
        if self._zygote is None:
            return Tier.ON_DISK
        return Tier.RESIDENT if self._zygote.profile is not None else Tier.ZYGOTE

    def prepare(self) -> Profile:
        """Have a zygote ready, and find out what the engine is like. Raises WorkerStartError."""
        with self._lock:
            self._hatch()
            if self._zygote is not None and self._zygote.profile is not None:
                return self._zygote.profile
            self._spare = self._start()[1:]
            return self._spare[1]

    def launch(self) -> Launched:
        """Raises LaunchError."""
        started_at = self._clock.now()
        try:
            with self._lock:
                tier, worker, profile = self._start()
        except WorkerStartError as error:
            raise LaunchError(error.message) from None
        engine = ProcessEngine(worker, profile, limit_s=self._step_limit_s)
        return Launched(
            engine=engine,
            tier=tier,
            took_s=self._clock.now() - started_at,
            sentinel=worker.handle,
            close=engine.close,
        )

    def close(self) -> None:
        """The zygote ends; workers live on."""
        with self._lock:
            self._closed = True
            if self._zygote is not None:
                self._zygote.stop()
                self._zygote = None
            if self._spare is not None:
                self._spare[0].close()
                self._spare = None

    def _start(self) -> tuple[Tier, WorkerProcess, Profile]:
        if self._closed:
            raise WorkerStartError("nothing is started any more")
        if self._spare is not None:
            spare, self._spare = self._spare, None
            return Tier.ON_DISK, *spare
        if self._zygote is None:
            self._hatch()
        if self._zygote is not None:
            tier = self.tier
            try:
                return tier, *self._zygote.fork()
            except WorkerStartError as error:
                log.warning("zygote given up", extra=fields(reason=error.message))
                self._zygote.stop()
                self._zygote = None
        return Tier.ON_DISK, *start_fresh(self._spec, start_limit_s=self._start_limit_s)

    def _hatch(self) -> None:
        """A zygote, if there is to be one and it can be. One whose engine can't be forked is not
        tried again."""
        if self._kind == "none":
            return
        try:
            self._zygote = ZygoteProcess(
                self._spec,
                resident=self._kind == "resident",
                start_limit_s=self._start_limit_s,
            )
        except WorkerStartError as error:
            log.warning("no zygote", extra=fields(reason=error.message, kind=self._kind))
            self._kind = "bare" if self._kind == "resident" else "none"
