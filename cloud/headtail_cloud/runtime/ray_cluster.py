"""The Ray cluster that instances are placed in: joined, or started on this machine."""

import logging
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import ray
from ray.exceptions import RayError

from headtail_cloud.config import RayConfig
from headtail_cloud.runtime.ray_actor import LIFE, EngineActor
from headtail_cloud.runtime.worker_process import ONE_THREAD
from headtail_fabric.errors import ResourceError
from headtail_fabric.logs import fields

log = logging.getLogger(__name__)

_STORE_BYTES: Final = 512 * 1024 * 1024
_JOIN_ERRORS: Final = (OSError, RuntimeError, ValueError, RayError)


class NoClusterError(ResourceError):
    """No Ray cluster could be joined, or started on this machine. For one that runs, give `address`
    under `[ray]` as `ray status` takes it; without an address one is started here, which needs
    room in /tmp and /dev/shm."""


class RayCluster:
    """A connection to a cluster. Ray has one a process; it is given up when the last of those who
    hold it has released it: who makes it is the first."""

    def __init__(self, address: str = "") -> None:
        """Join the one at that address; without one, start one on this machine. Takes seconds.
        Raises NoClusterError."""
        self._address = address
        self._lock = threading.Lock()
        self._holders = 1
        if ray.is_initialized():
            raise NoClusterError("this process is in a Ray cluster already")
        # The kernel kills the processes that Ray starts when the thread ends that started them; and
        # in the main thread Ray would put its own handler of SIGTERM in place of ours.
        self._thread = ThreadPoolExecutor(1, "ray")
        try:
            self._thread.submit(_connect, address).result()
        except _JOIN_ERRORS as error:
            self._leave()
            raise NoClusterError(f"no Ray cluster: {' '.join(str(error).split())[:300]}") from None
        log.info("ray cluster joined", extra=fields(resources=ray.cluster_resources()))

    def __repr__(self) -> str:
        return f"<RayCluster {self._address or 'of this machine'}, {self._holders} hold it>"

    def hold(self) -> None:
        """Keep it until `release`."""
        with self._lock:
            self._holders += 1

    def release(self) -> None:
        """The last one ends the connection, all actors, and a cluster that was started for it."""
        with self._lock:
            self._holders -= 1
            if self._holders == 0:
                self._leave()

    def place(self, config: RayConfig) -> Any:
        """The handle of a new actor, which starts where what it takes is free. Nothing starts it
        again, and no call is made twice: that is the fleet's to decide."""
        made = ray.remote(
            num_cpus=config.cpus,
            resources=config.resources,
            concurrency_groups={LIFE: 1},
            max_restarts=0,
            max_task_retries=0,
        )(EngineActor)
        return made.remote()

    def _leave(self) -> None:
        self._thread.submit(ray.shutdown).result()
        self._thread.shutdown()


def _connect(address: str) -> None:
    # Ray reports how it is used to its makers unless told not to; there is no other way to say so.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    environment = dict.fromkeys(ONE_THREAD, "1")
    if address:
        ray.init(
            address=address,
            log_to_driver=False,
            configure_logging=False,
            runtime_env={"env_vars": environment},
        )
        return
    modules = os.pathsep.join(entry for entry in sys.path if entry)
    ray.init(
        address="local",
        include_dashboard=False,
        object_store_memory=_STORE_BYTES,
        log_to_driver=False,
        configure_logging=False,
        runtime_env={"env_vars": {**environment, "PYTHONPATH": modules}},
    )
