"""Puts an edge together, runs it, and takes it apart again."""

import logging
import os
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final, TextIO

from headtail_edge.batcher import Batcher
from headtail_edge.config import EdgeConfig
from headtail_edge.intake import Intake
from headtail_edge.job import Job
from headtail_edge.job_queue import JobQueue
from headtail_edge.metrics import EdgeMetrics
from headtail_edge.part_store import PartStore
from headtail_edge.push import PushCore
from headtail_edge.pushed import PushedBundles
from headtail_edge.registry import BundleRegistry
from headtail_edge.server import EdgeServer
from headtail_edge.worker import Worker, WorkerPool
from headtail_fabric import keys
from headtail_fabric import metrics as measuring
from headtail_fabric.allowlist import AllowList, Role
from headtail_fabric.clock import Clock, MonotonicClock
from headtail_fabric.errors import ConfigError, HeadtailError
from headtail_fabric.logs import fields
from headtail_fabric.notify import Notifier, announce
from headtail_fabric.peer.ports import ServerPort
from headtail_fabric.peer.zmq_server import ZmqServer
from headtail_models.bundle.cache import BundleCache, default_root
from headtail_models.bundle.keys import PublicKey, load_public_key

_GOODBYE_S: Final = 1.0
_MIB: Final = 2**20

log = logging.getLogger(__name__)


class NothingToServeError(ConfigError):
    """The edge has no bundle and takes none from devices. Name one (`--bundle NAME|PATH`, see
    `headtail bundle list`), or let devices send theirs (`--accept-bundles`)."""


class HalfSecuredError(ConfigError):
    """A key and an allow-list go together: the key encrypts, the list says who may connect. Give
    both, or neither for an edge that only this machine can reach."""


def serve(config: EdgeConfig, *, stop: threading.Event, out: TextIO | None = None) -> None:
    """Run an edge until `stop` is set.

    When it serves it says so: to systemd, and as one line `{"event": "ready", "endpoint": ...,
    "bundles": [...]}` on `out` (standard output). Raises HeadtailError for whatever keeps it from
    starting: a ConfigError, BindError for a port in use, BundleError, MetricsPortError.
    """
    if not config.bundles and config.push.accept_from == "nobody":
        raise NothingToServeError("there is no bundle to serve")
    clock, allow_list = MonotonicClock(), _allow_list(config)
    with ExitStack() as cleanup:
        # Bound first: a port in use is found out before bundles are read.
        port = _bind(config, allow_list, clock)
        cleanup.callback(port.close, _GOODBYE_S)
        measured = measuring.serve(port=config.metrics_port)
        cleanup.callback(measured.close)
        metrics = EdgeMetrics(measured)
        registry = BundleRegistry(
            threads=config.threads or max(1, _cores() // config.workers),
            trusted=_trusted(config),
            cache_dir=config.cache_dir,
        )
        intake = _intake(config, allow_list, port, registry, metrics, clock)
        _load_bundles(config, registry)
        queue = JobQueue(_batcher(config), metrics=metrics, clock=clock)
        server = EdgeServer(
            port=port,
            registry=registry,
            queue=queue,
            intake=intake,
            metrics=metrics,
            max_pixels=round(config.max_picture_mpx * 1e6),
            clock=clock,
        )
        pool = WorkerPool(
            Worker(queue=queue, port=port, metrics=metrics, clock=clock)
            for _ in range(config.workers)
        )
        pool.start()
        port.serve_bundles(registry.digests())
        metrics.bundles(len(registry))
        if intake is not None:
            intake.start()
            cleanup.callback(intake.stop, _GOODBYE_S)
        _tell_ready(port, registry, out or sys.stdout)
        try:
            server.run(stop)
        finally:
            Notifier.from_environment().stopping()
            server.drain(pool, config.grace_s)
            log.info("edge stopped", extra=fields(traffic=port.traffic()))


def _allow_list(config: EdgeConfig) -> AllowList | None:
    if (config.key is None) != (config.allow_list is None):
        raise HalfSecuredError(f"{'key' if config.key else 'allow_list'} is given alone")
    if config.push.accept_from == "operators" and config.allow_list is None:
        raise HalfSecuredError(
            "push.accept_from names operators, and no allow_list says who is one"
        )
    return AllowList(config.allow_list) if config.allow_list is not None else None


def _bind(config: EdgeConfig, allow_list: AllowList | None, clock: Clock) -> ZmqServer:
    return ZmqServer(
        config.bind,
        name=config.name,
        window=config.window,
        keys=keys.load(config.key) if config.key is not None else None,
        allow_list=allow_list,
        clock=clock,
    )


def _trusted(config: EdgeConfig) -> list[PublicKey] | None:
    return [load_public_key(path) for path in config.trusted] or None


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _batcher(config: EdgeConfig) -> Batcher[Job]:
    return Batcher(
        max_batch=config.max_batch,
        queue_limit=config.queue_limit,
        workers=config.workers,
        max_wait_s=config.max_wait_ms / 1000,
    )


def _pushed(config: EdgeConfig) -> PushedBundles:
    return PushedBundles(
        config.push.folder or default_root().with_name("pushed"),
        max_bytes=config.push.max_bundle_mb * _MIB,
        max_bundles=config.push.max_bundles,
        trusted=_trusted(config),
    )


def _intake(
    config: EdgeConfig,
    allow_list: AllowList | None,
    port: ServerPort,
    registry: BundleRegistry,
    metrics: EdgeMetrics,
    clock: Clock,
) -> Intake | None:
    if config.push.accept_from == "nobody":
        return None
    pushed = _pushed(config)
    return Intake(
        port=port,
        registry=registry,
        core=PushCore(max_bytes=config.push.max_bundle_mb * _MIB),
        parts=PartStore(pushed.folder),
        pushed=pushed,
        may_push=_may_push(config, allow_list),
        metrics=metrics,
        clock=clock,
    )


def _may_push(config: EdgeConfig, allow_list: AllowList | None) -> Callable[[str], bool]:
    if config.push.accept_from == "everyone" or allow_list is None:
        return lambda user: True
    return lambda user: any(
        member.name == user and member.role is Role.OPERATOR for member in allow_list.members()
    )


def _load_bundles(config: EdgeConfig, registry: BundleRegistry) -> None:
    cache = BundleCache(config.cache_dir)
    for reference in config.bundles:
        registry.load(cache.find(reference), warm=True)
    if config.push.accept_from == "nobody":
        return
    for path in _pushed(config).paths():
        try:
            registry.load(path, warm=True)
        except HeadtailError as error:
            # Nobody asked for it by name, so it keeps nobody from being served.
            log.error("pushed bundle left out", extra=fields(path=path, reason=error))


def _tell_ready(port: ServerPort, registry: BundleRegistry, out: TextIO) -> None:
    served = [
        {"name": b.manifest.name, "version": b.manifest.version, "digest": b.digest.hex()}
        for b in registry.bundles()
    ]
    announce(out, event="ready", endpoint=port.endpoint, bundles=served)
    Notifier.from_environment().ready(f"{len(served)} bundles at {port.endpoint}")
    log.info("edge ready", extra=fields(endpoint=port.endpoint, bundles=len(served)))
