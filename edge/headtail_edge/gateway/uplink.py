"""The gateway as a device of the fabric: one connection to an edge, for all its nodes.

A thread of its own polls the connection, so that answers are taken and heartbeats sent in time; it
leaves events in a queue and wakes the gateway's loop.
"""

import logging
import queue
import threading
from collections.abc import Callable
from typing import Final

import numpy as np

from headtail_edge.gateway.core import GatewayCore
from headtail_edge.gateway.models import best_class
from headtail_edge.gateway.traffic import Inquiry
from headtail_fabric.codec import CodecError, codec_for
from headtail_fabric.codec.base import Array
from headtail_fabric.logs import fields
from headtail_fabric.peer.errors import WindowFullError
from headtail_fabric.peer.events import (
    Answered,
    ClientEvent,
    Connected,
    Disconnected,
    Expired,
    Failed,
    Refused,
)
from headtail_fabric.peer.ports import ClientPort
from headtail_fabric.wire import DType, ErrorCode

_POLL_S: Final = 0.5
_LOGITS: Final = "logits"
_PASSING: Final = frozenset({ErrorCode.NO_SESSION, ErrorCode.EXPIRED, ErrorCode.SHUTTING_DOWN})

log = logging.getLogger(__name__)


class Uplink:
    """Carries inquiries up and their outcomes back to the core. One thread calls `work`."""

    def __init__(self, port: ClientPort, *, deadline_s: float, wake: Callable[[], None]) -> None:
        self._port = port
        self._deadline_s = deadline_s
        self._wake = wake
        self._tickets: dict[int, int] = {}
        self._events: queue.SimpleQueue[ClientEvent] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="uplink", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """What is on its way is given up; its nodes keep it."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(2 * _POLL_S)
        self._port.close()

    def work(self, core: GatewayCore, now: float) -> None:
        """Tell the core what came of its inquiries, and send new ones."""
        while True:
            try:
                self._take(self._events.get_nowait(), core, now)
            except queue.Empty:
                break
        for inquiry in core.inquiries(self._port.free_window()):
            self._submit(inquiry, core, now)

    def _submit(self, inquiry: Inquiry, core: GatewayCore, now: float) -> None:
        crossing = inquiry.crossing
        try:
            request_id = self._port.submit(
                bundle=crossing.digest,
                cut=crossing.cut,
                tensors=[crossing.tensor],
                payloads=[inquiry.payload],
                deadline_s=self._deadline_s,
            )
        except WindowFullError:  # the connection broke meanwhile
            core.retried(inquiry.ticket, now)
        else:
            self._tickets[request_id] = inquiry.ticket

    def _take(self, event: ClientEvent, core: GatewayCore, now: float) -> None:
        match event:
            case Connected():
                log.info("edge connected", extra=fields(edge=event.offer.name))
            case Disconnected():
                log.warning("edge lost", extra=fields(reason=event.reason, final=event.final))
            case Answered():
                self._answered(event, core)
            case Refused():
                self._again(event.id, core, now, event.retry_after_s)
            case Expired():
                self._again(event.id, core, now, 0.0)
            case Failed():
                if event.code in _PASSING:
                    self._again(event.id, core, now, 0.0)
                elif (ticket := self._tickets.pop(event.id, None)) is not None:
                    log.warning(
                        "edge failed", extra=fields(code=event.code.name, reason=event.message)
                    )
                    core.failed(ticket, event.message)

    def _again(self, request_id: int, core: GatewayCore, now: float, after_s: float) -> None:
        ticket = self._tickets.pop(request_id, None)
        if ticket is not None:
            core.retried(ticket, now, after_s)

    def _answered(self, event: Answered, core: GatewayCore) -> None:
        ticket = self._tickets.pop(event.id, None)
        if ticket is None:
            return
        try:
            logits = _logits(event)
        except (CodecError, ValueError) as error:
            core.failed(ticket, f"the edge's answer makes no sense: {error}")
        else:
            core.answered(ticket, *best_class(logits))

    def _poll(self) -> None:
        while not self._stop.is_set():
            try:
                event = self._port.poll(_POLL_S)
            except Exception:  # the connection must go on whatever this one brought
                log.exception("uplink failed")
                continue
            if event is not None:
                self._events.put(event)
                self._wake()


def _logits(event: Answered) -> Array:
    for info, payload in zip(event.tensors, event.payloads, strict=True):
        if info.name == _LOGITS and info.dtype is DType.FLOAT32 and 0 < info.size <= 65_535:
            logits = codec_for(info.codec, dtype=info.dtype).decode(payload, info.shape)
            return np.asarray(logits)
    raise ValueError("it holds no logits")
