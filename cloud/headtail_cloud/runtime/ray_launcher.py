"""Starting instances of one engine as actors of a Ray cluster."""

import threading

from headtail_cloud.config import RayConfig
from headtail_cloud.instances.ladder import Tier
from headtail_cloud.runtime.engine_spec import EngineSpec
from headtail_cloud.runtime.launcher import Launched, LaunchError
from headtail_cloud.runtime.process_engine import ProcessEngine
from headtail_cloud.runtime.ray_cluster import RayCluster
from headtail_cloud.runtime.ray_worker import ActorWorker
from headtail_cloud.runtime.worker_message import Profile
from headtail_cloud.runtime.worker_process import WorkerStartError, load_engine
from headtail_fabric.clock import Clock, MonotonicClock


class RayLauncher:
    """Each instance an actor of its own, placed by Ray, and started from disk where it is."""

    def __init__(
        self,
        spec: EngineSpec,
        cluster: RayCluster,
        config: RayConfig,
        *,
        step_limit_s: float = 60.0,
        clock: Clock | None = None,
    ) -> None:
        """Holds the cluster until it is closed."""
        self._spec = spec
        self._cluster = cluster
        self._config = config
        self._step_limit_s = step_limit_s
        self._clock = clock or MonotonicClock()
        self._lock = threading.Lock()
        self._spare: tuple[ActorWorker, Profile] | None = None
        self._closed = False
        cluster.hold()

    def __repr__(self) -> str:
        return f"<RayLauncher {self._spec.factory}, {self._cluster!r}>"

    @property
    def tier(self) -> Tier:
        """Where instances start from now."""
        return Tier.ON_DISK

    def prepare(self) -> Profile:
        """Find out what the engine is like; the actor that tells becomes the first instance. Raises
        WorkerStartError."""
        spare = self._start()
        with self._lock:
            self._spare = spare
        return spare[1]

    def launch(self) -> Launched:
        """Raises LaunchError."""
        started_at = self._clock.now()
        try:
            worker, profile = self._taken_spare() or self._start()
        except WorkerStartError as error:
            raise LaunchError(error.message) from None
        engine = ProcessEngine(worker, profile, limit_s=self._step_limit_s)
        return Launched(
            engine=engine,
            tier=self.tier,
            took_s=self._clock.now() - started_at,
            sentinel=worker.sentinel,
            close=engine.close,
        )

    def close(self) -> None:
        """Nothing is started any more. Closing it again does nothing."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        spare = self._taken_spare()
        if spare is not None:
            spare[0].close()
        self._cluster.release()

    def _taken_spare(self) -> tuple[ActorWorker, Profile] | None:
        with self._lock:
            spare, self._spare = self._spare, None
            return spare

    def _start(self) -> tuple[ActorWorker, Profile]:
        if self._closed:
            raise WorkerStartError("nothing is started any more")
        limit_s = self._config.start_limit_s
        worker = ActorWorker(self._cluster.place(self._config), start_limit_s=limit_s)
        return worker, load_engine(worker, self._spec, start_limit_s=limit_s)
