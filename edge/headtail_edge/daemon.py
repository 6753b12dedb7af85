"""Puts an edge together, runs it, and takes it apart again."""

import logging
import os
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final, TextIO

from headtail_edge.batcher import Batcher
from headtail_edge.canary import Canaries
from headtail_edge.config import EdgeConfig
from headtail_edge.costs import Costs
from headtail_edge.forward import Forwarder
from headtail_edge.health import Health
from headtail_edge.intake import Intake
from headtail_edge.job import Job
from headtail_edge.job_queue import JobQueue
from headtail_edge.metrics import EdgeMetrics
from headtail_edge.part_store import PartStore
from headtail_edge.presence import announced
from headtail_edge.process_runner import ProcessRunner
from headtail_edge.push import PushCore
from headtail_edge.pushed import PushedBundles
from headtail_edge.registry import BundleRegistry
from headtail_edge.request_traces import traced
from headtail_edge.sealing import open_seals
from headtail_edge.server import EdgeServer
from headtail_edge.stage_memory import StageMemory
from headtail_edge.tail_opener import TailOpener
from headtail_edge.tail_runner import Runner, TailRunner
from headtail_edge.tenants import Tenants, TenantsError
from headtail_edge.watch import Watcher
from headtail_edge.worker import Worker, WorkerPool
from headtail_fabric import keys
from headtail_fabric import metrics as measuring
from headtail_fabric.allowlist import AllowList, Role
from headtail_fabric.clock import Clock, MonotonicClock
from headtail_fabric.errors import ConfigError, HeadtailError
from headtail_fabric.logs import fields
from headtail_fabric.notify import Notifier, announce
from headtail_fabric.peer.ports import ServerPort
from headtail_fabric.peer.zmq_client import ZmqClient
from headtail_fabric.peer.zmq_server import ZmqServer
from headtail_fabric.seal import Opener
from headtail_models.bundle.cache import BundleCache, default_root
from headtail_models.bundle.keys import PublicKey, load_public_key

_GOODBYE_S: Final = 1.0
_MIB: Final = 2**20

log = logging.getLogger(__name__)


class NothingToServeError(ConfigError):
    """The edge has no bundle and takes none from devices. Name one (`--bundle NAME|PATH`, see
    `headtail bundle list`), name a folder of them (`watch`), or let devices send theirs
    (`--accept-bundles`)."""


class HalfSecuredError(ConfigError):
    """A key and an allow-list go together: the key encrypts, the list says who may connect. Give
    both, or neither for an edge that only this machine can reach."""


def serve(config: EdgeConfig, *, stop: threading.Event, out: TextIO | None = None) -> None:
    """Run an edge until `stop` is set.

    When it serves it says so: to systemd, and as one line `{"event": "ready", "endpoint": ...,
    "bundles": [...]}` on `out` (standard output). Raises HeadtailError for whatever keeps it from
    starting: a ConfigError, BindError for a port in use, BundleError, MetricsPortError.
    """
    if not config.bundles and config.watch is None and config.push.accept_from == "nobody":
        raise NothingToServeError("there is no bundle to serve")
    clock, allow_list = MonotonicClock(), _allow_list(config)
    with ExitStack() as cleanup:
        # Bound first: a port in use is found out before bundles are read.
        health = Health(clock)
        measured = measuring.serve(
            port=config.metrics_port, checks={"/healthz": health.alive, "/readyz": health.ready}
        )
        cleanup.callback(measured.close)
        metrics = EdgeMetrics(measured)
        bound = _bind(config, allow_list, open_seals(config.seal, metrics), clock)
        cleanup.callback(bound.close, _GOODBYE_S)
        port = traced(bound, config, clock, cleanup)
        registry = BundleRegistry(
            threads=_threads(config),
            trusted=_trusted(config),
            cache_dir=config.cache_dir,
            memory=_stage_memory(config),
            pinned=config.pinned,
        )
        intake = _intake(config, allow_list, port, registry, metrics, clock)
        _load_bundles(config, registry)
        watcher = Watcher(config.watch, registry) if config.watch is not None else None
        if watcher is not None:
            # Twice: what is there already needs no time to settle.
            watcher.look()
            watcher.look()
        canaries = Canaries(config.canary, registry.get)
        costs = Costs()
        queue = JobQueue(
            _batcher(config, costs),
            costs=costs,
            workers=config.workers,
            metrics=metrics,
            clock=clock,
        )
        forwarder = _forwarder(config, port, registry, queue, metrics, clock)
        # Worker processes open their tails themselves.
        opener = TailOpener() if config.worker_kind == "thread" else None
        server = EdgeServer(
            port=port,
            registry=registry,
            queue=queue,
            canaries=canaries,
            tenants=_tenants(config),
            intake=intake,
            metrics=metrics,
            max_pixels=round(config.max_picture_mpx * 1e6),
            health=health,
            clock=clock,
            forwarder=forwarder,
            opener=opener,
        )
        pool = WorkerPool(
            Worker(
                queue=queue,
                port=port,
                runner=_runner(config, clock),
                metrics=metrics,
                clock=clock,
            )
            for _ in range(config.workers)
        )
        pool.start()
        health.serving(pool)
        registry.subscribe(lambda digests: port.serve_bundles(digests, canaries.offered))
        registry.subscribe(lambda digests: metrics.bundles(len(digests)))
        registry.subscribe(queue.serving)
        if watcher is not None:
            watcher.start()
            cleanup.callback(watcher.stop)
        if forwarder is not None:
            forwarder.start()
            cleanup.callback(forwarder.stop, _GOODBYE_S)
        if opener is not None:
            opener.start()
            cleanup.callback(opener.stop, _GOODBYE_S)
        if intake is not None:
            intake.start()
            cleanup.callback(intake.stop, _GOODBYE_S)
        if config.announce:
            announcer = announced(config, endpoint=port.endpoint, digests=registry.digests())
            cleanup.callback(announcer.close)
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


def _bind(
    config: EdgeConfig, allow_list: AllowList | None, opener: Opener | None, clock: Clock
) -> ZmqServer:
    return ZmqServer(
        config.bind,
        name=config.name,
        window=config.window,
        keys=keys.load(config.key) if config.key is not None else None,
        allow_list=allow_list,
        opener=opener,
        clock=clock,
    )


def _forwarder(
    config: EdgeConfig,
    port: ServerPort,
    registry: BundleRegistry,
    queue: JobQueue,
    metrics: EdgeMetrics,
    clock: Clock,
) -> Forwarder | None:
    if not config.cloud:
        return None
    if config.cloud_key and config.key is None:
        raise HalfSecuredError("cloud_key is given, and no key of this edge")
    cloud = ZmqClient(
        config.cloud,
        name=config.name,
        agent="headtail edge",
        # Told at once: what these devices may need can be made ready there.
        bundles=registry.digests(),
        keys=keys.load(config.key) if config.key is not None and config.cloud_key else None,
        server_key=keys.check_public(config.cloud_key) if config.cloud_key else None,
        clock=clock,
    )
    return Forwarder(cloud=cloud, port=port, queue=queue, metrics=metrics, clock=clock)


def _trusted(config: EdgeConfig) -> list[PublicKey] | None:
    return [load_public_key(path) for path in config.trusted] or None


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _stage_memory(config: EdgeConfig) -> StageMemory:
    if config.worker_kind == "thread":
        return StageMemory(_memory_bytes(config))
    # Here tails are opened only to see that they can be.
    return StageMemory(0)


def _memory_bytes(config: EdgeConfig) -> int | None:
    return None if config.memory_mb is None else config.memory_mb * _MIB


def _tenants(config: EdgeConfig) -> Tenants:
    if config.tenants and config.allow_list is None:
        raise TenantsError("there are tenants, and no allow_list that says who a device is")
    return Tenants(config.tenants, config.limits, queue_limit=config.queue_limit)


def _threads(config: EdgeConfig) -> int:
    return config.threads or max(1, _cores() // config.workers)


def _batcher(config: EdgeConfig, costs: Costs) -> Batcher[Job]:
    return Batcher(
        max_batch=config.max_batch,
        queue_limit=config.queue_limit,
        costs=costs,
        max_wait_s=config.max_wait_ms / 1000,
        patience_s=config.limits.patience_ms / 1000,
        slack_s=config.limits.slack_ms / 1000,
        mixed_cuts=config.mixed_cuts,
    )


def _runner(config: EdgeConfig, clock: Clock) -> Runner:
    if config.worker_kind == "thread":
        return TailRunner(clock=clock)
    return ProcessRunner(
        threads=_threads(config),
        memory_bytes=_memory_bytes(config),
        hang_s=config.worker_hang_s,
        clock=clock,
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
