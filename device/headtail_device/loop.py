"""The thread that turns what comes in the inbox into frames with an outcome, until all have one."""

import logging
import threading
from collections.abc import Callable
from typing import Final

from headtail_device.inbox import Inbox, SourceEnded
from headtail_device.runner import Runner
from headtail_device.source.frame import Item, Source
from headtail_fabric.clock import Clock
from headtail_fabric.errors import HeadtailError, LocalError, PeerError
from headtail_fabric.peer.events import Disconnected
from headtail_fabric.peer.ports import ClientPort

log = logging.getLogger(__name__)

_LOOK_UP_S: Final = 0.2
"""How often a waiting loop looks whether it shall stop."""


class EdgeRequiredError(PeerError):
    """The edge could not be used in time, and the configuration requires it. Check that it runs,
    that the address is right, that it serves this bundle and that this device's key is enrolled
    there; or set edge.required = false to let the device answer by itself meanwhile."""


class Loop:
    """Runs a `Runner` on an `Inbox`."""

    def __init__(
        self,
        runner: Runner,
        inbox: Inbox,
        *,
        clock: Clock,
        stopped: Callable[[], bool],
        drain_s: float,
        edge_required: bool,
        tick: Callable[[], None],
    ) -> None:
        """`tick` is called after each step; it must be quick."""
        self._runner = runner
        self._inbox = inbox
        self._clock = clock
        self._stopped = stopped
        self._drain_s = drain_s
        self._edge_required = edge_required
        self._tick = tick
        self._ended: SourceEnded | None = None

    def run(self) -> HeadtailError | None:
        """Until the source has ended or a stop is wanted, and every frame accepted has its
        outcome. Returns what broke the source. Raises EdgeRequiredError."""
        while not self._stopped() and not (self._ended and self._runner.idle):
            self._check_edge()
            self._step(want_frame=self._ended is None and self._runner.wants_frame)
        self._drain()
        return self._ended.error if self._ended else None

    def _drain(self) -> None:
        """Wait for the edge's answers for a while, then compute what is missing."""
        self._runner.wind_up()
        until = self._clock.now() + self._drain_s
        while self._runner.in_flight and self._clock.now() < until:
            self._step(want_frame=False)
        self._runner.give_up_edge("the device is stopping")
        while self._runner.has_work:
            self._runner.work()
            self._tick()

    def _step(self, *, want_frame: bool) -> None:
        got = self._inbox.take(want_frame=want_frame, timeout_s=self._patience_s())
        if got is None:
            if self._runner.has_work:
                self._runner.work()
        elif isinstance(got, SourceEnded):
            self._ended = got
        elif isinstance(got, Item):
            self._runner.on_item(got)
        else:
            self._runner.on_event(got)
        self._runner.on_time()
        self._tick()

    def _patience_s(self) -> float:
        if self._runner.has_work:
            return 0.0
        waiting_for_edge_s = self._runner.patience_left_s or _LOOK_UP_S
        timer_in_s = self._runner.next_timer_in_s
        return min(_LOOK_UP_S, waiting_for_edge_s, _LOOK_UP_S if timer_in_s is None else timer_in_s)

    def _check_edge(self) -> None:
        if self._edge_required and not self._runner.edge.ready:
            if self._runner.patience_left_s <= 0:
                raise EdgeRequiredError("the edge can't be used")
        elif self._edge_required:
            self._edge_required = False  # it was there: from now on it may come and go


def capture(source: Source, inbox: Inbox) -> None:
    """A thread's work: everything of the source into the inbox. Opens and closes the source."""
    try:
        with source:
            for item in source:
                if not inbox.put_frame(item):
                    return
        inbox.end()
    except HeadtailError as error:
        inbox.end(error)
    except Exception as error:  # the thread's border: else the loop would wait for ever
        log.exception("the source failed")
        inbox.end(LocalError(f"{source.name}: {type(error).__name__}: {error}"))


def listen(port: ClientPort, inbox: Inbox, closing: threading.Event) -> None:
    """A thread's work: the port's events into the inbox, until `closing`."""
    try:
        while not closing.is_set():
            event = port.poll(_LOOK_UP_S)
            if event is not None:
                inbox.put_event(event)
    except Exception as error:  # the thread's border: the device goes on without the edge
        log.exception("the connection failed")
        inbox.put_event(Disconnected(reason=f"{type(error).__name__}: {error}", final=True))
