"""Puts a gateway together, runs it, and takes it apart again."""

import logging
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Final, TextIO

import zmq

from headtail_edge.gateway.config import (
    GatewayConfig,
    LinkConfig,
    SerialConfig,
    TcpConfig,
    UdpConfig,
    ZmtpConfig,
)
from headtail_edge.gateway.core import GatewayCore
from headtail_edge.gateway.links.link import Link
from headtail_edge.gateway.links.sealed import Sealed
from headtail_edge.gateway.links.serial_line import SerialLink
from headtail_edge.gateway.links.tcp import TcpLink
from headtail_edge.gateway.links.udp import UdpLink
from headtail_edge.gateway.links.zmtp import Zap, ZmtpLink
from headtail_edge.gateway.metrics import Dropped, GatewayMetrics
from headtail_edge.gateway.models import Models, load_models
from headtail_edge.gateway.node_book import NodeBook
from headtail_edge.gateway.records import RecordFile
from headtail_edge.gateway.traffic import Arrival, Route
from headtail_edge.gateway.uplink import Uplink
from headtail_edge.gateway.vault import Vault
from headtail_fabric import keys
from headtail_fabric import metrics as measuring
from headtail_fabric.clock import Clock, MonotonicClock
from headtail_fabric.errors import ConfigError
from headtail_fabric.keys import KeyPair
from headtail_fabric.logs import fields
from headtail_fabric.notify import Notifier, announce
from headtail_fabric.peer.wakeup import Wakeup
from headtail_fabric.peer.zmq_client import ZmqClient
from headtail_models.bundle.cache import BundleCache

_POLL_MS: Final = 500
_FOLLOW_S: Final = 1.0

log = logging.getLogger(__name__)


class NoLinksError(ConfigError):
    """A gateway without links reaches no node. Add a [[links]] table to the configuration
    (`headtail edge gateway --print-config`)."""


class GatewayUnkeyedError(ConfigError):
    """The edge's key is of no use without one of this gateway's own. Make one with `headtail keys
    new NAME`, enrol it at the edge, and name the file as `key`."""


def run(config: GatewayConfig, *, stop: threading.Event, out: TextIO | None = None) -> None:
    """Run a gateway until `stop` is set.

    When nodes can connect it says so: to systemd, and as one line `{"event": "ready", "links":
    [...]}` on `out` (standard output). Raises HeadtailError for whatever keeps it from running.
    """
    if not config.links:
        raise NoLinksError("there are no links")
    if config.edge.server_key and config.key is None:
        raise GatewayUnkeyedError("edge.server_key is given without key")
    with ExitStack() as cleanup:
        gateway = Gateway(config, MonotonicClock(), cleanup)
        announce(out or sys.stdout, event="ready", links=gateway.endpoints)
        Notifier.from_environment().ready(f"{len(gateway.endpoints)} links")
        log.info("gateway ready", extra=fields(links=gateway.endpoints))
        while not stop.is_set():
            gateway.turn(_POLL_MS)
        Notifier.from_environment().stopping()
        log.info("gateway stopped", extra=fields(core=gateway.core))


class Gateway:
    """The loop between links, core, records and uplink; what it opens is closed by `cleanup`."""

    def __init__(self, config: GatewayConfig, clock: Clock, cleanup: ExitStack) -> None:
        self._clock = clock
        self._book = NodeBook(config.nodes)
        key = keys.load(config.key) if config.key is not None else None
        measured = measuring.serve(port=config.metrics_port)
        cleanup.callback(measured.close)
        self._metrics = GatewayMetrics(measured)
        models = load_models(config.models, BundleCache())
        self.core = GatewayCore(
            roster=self._book.roster,
            models=models,
            quota=config.quota,
            silent_s=config.silent_s,
            metrics=self._metrics,
        )
        self._records = cleanup.enter_context(RecordFile(config.records))
        self._poller = zmq.Poller()
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        cleanup.callback(context.destroy, 0)
        self._zap = Zap(context, lambda: self._book.roster)
        cleanup.callback(self._zap.close)
        self._zap.watch(self._poller)
        self._refused = 0
        sealed = Sealed(Vault(config.state), lambda: self._book.roster, self._metrics)
        self._links: list[Link] = []
        for one in config.links:
            link = self._open(one, context, key, sealed)
            cleanup.callback(link.close)
            link.watch(self._poller)
            self._links.append(link)
        wakeup = Wakeup()
        cleanup.callback(wakeup.close)
        self._poller.register(wakeup.fileno(), zmq.POLLIN)
        self._wakeup = wakeup
        self._uplink = _uplink(config, key, models, wakeup)
        cleanup.callback(self._uplink.stop)
        self._uplink.start()
        self._follow_at = 0.0

    @property
    def endpoints(self) -> Sequence[str]:
        """Where nodes come in."""
        return [link.endpoint for link in self._links]

    def turn(self, timeout_ms: int) -> None:
        """Wait for something, for so long at most, and deal with all that is there."""
        due_at = self.core.next_timer()
        if due_at is not None:
            timeout_ms = max(0, min(timeout_ms, round((due_at - self._clock.now()) * 1000) + 1))
        self._poller.poll(timeout_ms)
        self._wakeup.clear()
        self._zap.answer()
        self._metrics.dropped(Dropped.UNKNOWN, self._zap.refused - self._refused)
        self._refused = self._zap.refused
        now, wall = self._clock.now(), time.time()
        for number, link in enumerate(self._links):
            for incoming in link.read():
                route = Route(number, incoming.address)
                arrival = Arrival(route=route, node=incoming.node, data=incoming.data)
                self.core.receive(arrival, now, wall)
        self._uplink.work(self.core, now)
        if now >= self._follow_at:
            self._follow_at = now + _FOLLOW_S
            self._follow(now)
        elif due_at is not None and now >= due_at:
            self.core.on_timer(now)
        self._answer()

    def _follow(self, now: float) -> None:
        if self._book.follow():
            self.core.follow(self._book.roster)
        self.core.on_timer(now)

    def _answer(self) -> None:
        """Nothing is acknowledged that is not written down."""
        lines = self.core.lines()
        for line in lines:
            self._records.write(line)
        if lines:
            self._records.flush()
        for departure in self.core.to_send():
            link = self._links[departure.route.link]
            link.send(departure.route.address, departure.node, departure.data)

    def _open(
        self,
        config: LinkConfig,
        context: "zmq.Context[zmq.Socket[bytes]]",
        key: KeyPair | None,
        sealed: Sealed,
    ) -> Link:
        match config:
            case ZmtpConfig():
                return ZmtpLink(config, context=context, key=key, metrics=self._metrics)
            case UdpConfig():
                return UdpLink(config, sealed)
            case TcpConfig():
                return TcpLink(config, sealed)
            case SerialConfig():
                return SerialLink(config, sealed)


def _uplink(config: GatewayConfig, key: KeyPair | None, models: Models, wakeup: Wakeup) -> Uplink:
    edge = config.edge
    port = ZmqClient(
        edge.endpoint,
        name=config.name,
        agent="headtail-gateway",
        bundles=models.digests(),
        keys=key if edge.server_key else None,
        server_key=keys.check_public(edge.server_key) if edge.server_key else None,
    )
    return Uplink(port, deadline_s=edge.deadline_s, wake=wakeup.wake)
