"""`headtail cloud serve`: the HTTP server, the models and the runtime, from start to stop.

The port is bound first, and a port in use is found out before anything is loaded. Then the server
answers, at first that it is not ready, while a thread opens the models.
"""

import asyncio
import ipaddress
import logging
import os
import socket
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, TextIO

import uvicorn

from headtail_cloud.config import CloudConfig
from headtail_cloud.engines.loading import load_tails
from headtail_cloud.engines.served_tail import NothingServedError, ServedTail
from headtail_cloud.engines.tail import TailEngine
from headtail_cloud.gateway.app import Gateway
from headtail_cloud.gateway.deployment import Deployment
from headtail_cloud.gateway.limits import Limits
from headtail_cloud.gateway.service import TailService
from headtail_cloud.metrics import CloudMetrics
from headtail_cloud.runtime.in_process import InProcessRuntime
from headtail_cloud.tenants import Tenants, load_tenants
from headtail_fabric.clock import MonotonicClock
from headtail_fabric.errors import ConfigError, HeadtailError, ResourceError
from headtail_fabric.logs import fields
from headtail_fabric.metrics import PrometheusMetrics
from headtail_fabric.notify import Notifier, announce

log = logging.getLogger(__name__)

_MIB: Final = 1024 * 1024
_BACKLOG: Final = 512
_MAX_HEADER_BYTES: Final = 32 * 1024
_KEEP_ALIVE_S: Final = 30
_CONNECTIONS_PER_REQUEST: Final = 4
"""Connections at a time, idle ones included, for each request that may be in progress."""


class OpenServerError(ConfigError):
    """A server that others can reach asks for API keys. Make some with `headtail cloud key`, and
    name their file as `tenants`; or bind to this machine only."""


class PortError(ResourceError):
    """The server can't listen there: another program has the port, or the address is not this
    machine's. Choose another one, or stop the other program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """What a server is made of, before it runs."""

    config: CloudConfig
    tenants: Tenants
    deployment: Deployment
    measured: PrometheusMetrics
    metrics: CloudMetrics


def serve(
    config: CloudConfig, *, version: str, stop: threading.Event, out: TextIO | None = None
) -> None:
    """Serve until `stop` is set. When models are loaded, a JSON line `{"event": "ready", "url":
    ..., "models": [...]}` is written to `out` (standard output). For the main thread.

    Raises HeadtailError for whatever keeps it from starting: OpenServerError, PortError,
    NothingServedError, BundleError, what `load_tenants` does.
    """
    if not config.models:
        raise NothingServedError("there is nothing to serve")
    tenants = load_tenants(config.tenants, concurrency=config.concurrency)
    if not tenants.asks_for_keys and not _is_this_machine(config.host):
        raise OpenServerError(f"{config.host} can be reached by others, and no keys are asked for")
    measured = PrometheusMetrics()
    parts = _Parts(
        config=config,
        tenants=tenants,
        deployment=Deployment(),
        measured=measured,
        metrics=CloudMetrics(measured),
    )
    with _bound(config) as bound:
        server = _server(parts, version)
        threading.Thread(target=_relay, args=(stop, server), daemon=True).start()
        asyncio.run(_run(parts, server, bound, out or sys.stdout))


def _bound(config: CloudConfig) -> socket.socket:
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((config.host, config.port))
    except OSError as error:
        bound.close()
        reason = error.strerror or error
        raise PortError(f"{config.host} port {config.port}: {reason}") from None
    return bound


def _server(parts: _Parts, version: str) -> uvicorn.Server:
    gateway = Gateway(
        parts.deployment,
        version=version,
        tenants=parts.tenants,
        limits=Limits(
            body_bytes=round(parts.config.max_body_mb * _MIB),
            body_s=parts.config.body_s,
            concurrency=parts.config.concurrency,
        ),
        metrics=parts.metrics,
        text=parts.measured.text,
    )
    return uvicorn.Server(
        uvicorn.Config(
            gateway.app(),
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=_BACKLOG,
            limit_concurrency=_CONNECTIONS_PER_REQUEST * parts.config.concurrency,
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=max(1, round(parts.config.grace_s)),
            h11_max_incomplete_event_size=_MAX_HEADER_BYTES,
        )
    )


def _relay(stop: threading.Event, server: uvicorn.Server) -> None:
    stop.wait()
    server.should_exit = True


async def _run(parts: _Parts, server: uvicorn.Server, bound: socket.socket, out: TextIO) -> None:
    url = _url(bound)
    serving = asyncio.create_task(server.serve(sockets=[bound]))
    try:
        async with _service(parts) as models:
            announce(out, event="ready", url=url, models=[tail.name for tail in models])
            Notifier.from_environment().ready(f"{len(models)} models at {url}")
            log.info("cloud ready", extra=fields(url=url, models=len(models)))
            await serving
            Notifier.from_environment().stopping()
    except HeadtailError:
        server.should_exit = True
        await serving
        raise
    log.info("cloud stopped")


@asynccontextmanager
async def _service(parts: _Parts) -> AsyncIterator[list[ServedTail]]:
    """Loads the models, and serves them while the context lasts."""
    clock = MonotonicClock()
    started_at = clock.now()
    models = await asyncio.to_thread(_load, parts.config)
    runtime = InProcessRuntime(
        TailEngine(models, max_batch=parts.config.max_batch),
        options=parts.config.scheduling(parts.tenants.shares),
        watcher=parts.metrics,
        clock=clock,
    )
    try:
        parts.deployment.ready(
            TailService(
                models,
                runtime,
                deadline_s=parts.config.deadline_s,
                longest_deadline_s=parts.config.longest_deadline_s,
            )
        )
        parts.metrics.started(clock.now() - started_at)
        yield models
    finally:
        await runtime.close(parts.config.grace_s)


def _load(config: CloudConfig) -> list[ServedTail]:
    return load_tails(
        config.models,
        trusted=config.trusted,
        cache_dir=config.cache_dir,
        threads=config.threads or len(os.sched_getaffinity(0)),
    )


def _url(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _is_this_machine(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
