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
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final, TextIO

import uvicorn

from headtail_cloud.config import CloudConfig
from headtail_cloud.endpoint.edges import EdgeEndpoint
from headtail_cloud.endpoint.port import open_port
from headtail_cloud.engines.remote import RemoteOptions, RemoteServers
from headtail_cloud.engines.served_tail import NothingServedError
from headtail_cloud.gateway.app import Gateway
from headtail_cloud.gateway.deployment import Deployment
from headtail_cloud.gateway.http_server import HEAD_BYTES, http_protocol, loop_factory
from headtail_cloud.gateway.limits import Limits
from headtail_cloud.gateway.service import TailService
from headtail_cloud.metrics import CloudMetrics
from headtail_cloud.open_ai.service import TextLimits, TextService
from headtail_cloud.runtime.assembly import Assembled, assemble
from headtail_cloud.tenants import Tenants, load_tenants
from headtail_fabric.clock import MonotonicClock
from headtail_fabric.errors import ConfigError, HeadtailError, ResourceError
from headtail_fabric.logs import fields
from headtail_fabric.metrics import PrometheusMetrics
from headtail_fabric.notify import Notifier, announce
from headtail_fabric.peer.zmq_server import ZmqServer

log = logging.getLogger(__name__)

_MIB: Final = 1024 * 1024
_BACKLOG: Final = 512
_KEEP_ALIVE_S: Final = 30
_GOODBYE_S: Final = 1.0
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
    ..., "models": [...]}` is written to `out` (standard output), with `"edges"` where there is an
    endpoint for them. For the main thread.

    Raises HeadtailError for whatever keeps it from starting: OpenServerError, PortError,
    NothingServedError, BundleError, WorkerStartError, what `load_tenants` and `open_port` do.
    """
    if not config.models and not config.llm and not config.remotes:
        raise NothingServedError("there is nothing to serve")
    tenants = load_tenants(config.tenants, concurrency=config.concurrency)
    if not tenants.asks_for_keys and not _is_this_machine(config.host):
        raise OpenServerError(f"{config.host} can be reached by others, and no keys are asked for")
    measured = PrometheusMetrics()
    parts = _Parts(
        config=config,
        tenants=tenants,
        deployment=Deployment(remotes=_remotes(config)),
        measured=measured,
        metrics=CloudMetrics(measured),
    )
    with ExitStack() as cleanup:
        bound = cleanup.enter_context(_bound(config))
        edges = open_port(config.edges)
        if edges is not None:
            cleanup.callback(edges.close, _GOODBYE_S)
        server = _server(parts, version)
        threading.Thread(target=_relay, args=(stop, server), daemon=True).start()
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(_run(parts, server, bound, edges, out or sys.stdout))


def _bound(config: CloudConfig) -> socket.socket:
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    # Only where the protocol is named does asyncio turn Nagle's algorithm off, which would hold
    # every body back for 40 ms behind its headers.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
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
            http=http_protocol(),
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
            h11_max_incomplete_event_size=HEAD_BYTES,
        )
    )


def _relay(stop: threading.Event, server: uvicorn.Server) -> None:
    stop.wait()
    server.should_exit = True


async def _run(
    parts: _Parts,
    server: uvicorn.Server,
    bound: socket.socket,
    edges: ZmqServer | None,
    out: TextIO,
) -> None:
    url = _url(bound)
    serving = asyncio.create_task(server.serve(sockets=[bound]))
    try:
        async with _service(parts, edges) as models:
            where = {"edges": edges.endpoint} if edges is not None else {}
            announce(out, event="ready", url=url, models=list(models), **where)
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
async def _service(parts: _Parts, edges: ZmqServer | None) -> AsyncIterator[Sequence[str]]:
    """Loads the models, and serves them, by their names, while the context lasts."""
    clock = MonotonicClock()
    assembled = await assemble(
        parts.config, parts.tenants.shares, watcher=parts.metrics, clock=clock
    )
    endpoint: EdgeEndpoint | None = None
    remotes = parts.deployment.remotes
    try:
        if remotes is not None:
            await remotes.start()
        if edges is not None:
            endpoint = EdgeEndpoint(edges, assembled.models, assembled.runtime, clock=clock)
            endpoint.start()
        parts.deployment.ready(
            _tail_service(assembled, parts.config), _text_service(assembled, parts.config)
        )
        yield _names(assembled)
    finally:
        await assembled.runtime.close(parts.config.grace_s)
        if endpoint is not None:
            await endpoint.close()
        if remotes is not None:
            await remotes.close()


def _remotes(config: CloudConfig) -> RemoteServers | None:
    if not config.remotes:
        return None
    options = [
        RemoteOptions(
            name=name,
            url=remote.url,
            key=os.environ.get(remote.key_variable) if remote.key_variable else None,
            concurrency=remote.concurrency,
            limit_s=remote.limit_s,
        )
        for name, remote in config.remotes.items()
    ]
    return RemoteServers(options, clock=MonotonicClock())


def _tail_service(assembled: Assembled, config: CloudConfig) -> TailService | None:
    if not assembled.models:
        return None
    return TailService(
        assembled.models,
        assembled.runtime,
        deadline_s=config.deadline_s,
        longest_deadline_s=config.longest_deadline_s,
    )


def _text_service(assembled: Assembled, config: CloudConfig) -> TextService | None:
    if assembled.texts is None:
        return None
    limits = TextLimits(
        ttft_s=config.llm_first_token_s, tbt_s=config.llm_token_s, longest=config.llm_longest
    )
    return TextService(assembled.texts, assembled.runtime, limits)


def _names(assembled: Assembled) -> list[str]:
    texts = assembled.texts.names if assembled.texts is not None else ()
    return [*(tail.name for tail in assembled.models), *texts]


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
