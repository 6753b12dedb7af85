"""An emulated link as a TCP proxy in a thread."""

import logging
import socket
import threading
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from headtail_fabric.clock import Clock, MonotonicClock
from headtail_fabric.emulator.address import LoopbackAddress
from headtail_fabric.emulator.conditions import Direction, Outage
from headtail_fabric.emulator.doorway import Doorway, tcp_socket
from headtail_fabric.emulator.switchboard import Owner, Switchboard
from headtail_fabric.emulator.trace import LinkTrace
from headtail_fabric.emulator.watcher import READ, Watcher
from headtail_fabric.logs import fields

MAX_CONNECTIONS: Final = 128

_ACCEPTS_AT_ONCE: Final = 16
_ACCEPT_AGAIN_S: Final = 0.5
_LONGEST_WAIT_S: Final = 1.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkTally:
    """What went through an emulated link so far. Bytes are those that receivers were given; a stall
    is a loss."""

    connections: int
    """Taken so far."""
    open: int
    """Of them, not over yet."""
    bytes_up: int
    bytes_down: int
    stalls: int


class LinkProxy:
    """Listens on `listen`, and joins each connection to `target` by a link like `trace`.

    Both are endpoints of this machine, `tcp://127.0.0.1:PORT`. It works, and the trace's time runs,
    from here until `close`. All connections share the link, at most 128 at a time; more wait until
    one ends. The same `seed` draws the same jitter and losses for the same reads.

    Raises LoopbackAddressError, BindError.
    """

    def __init__(
        self,
        trace: LinkTrace,
        *,
        target: str,
        listen: str = "tcp://127.0.0.1:0",
        seed: int = 0,
        clock: Clock | None = None,
    ) -> None:
        self._trace = trace
        self._target = LoopbackAddress.parse(target)
        self._clock = clock or MonotonicClock()
        self._doorway = Doorway(LoopbackAddress.parse(listen))
        self._watcher: Watcher[Owner] = Watcher()
        self._begun_at = self._clock.now()
        self._changes_at = float("inf")
        self._switchboard = Switchboard(
            trace,
            self._target,
            watcher=self._watcher,
            seed=seed,
            clock=self._clock,
            now=self._begun_at,
        )
        self._watched: socket.socket | None = None
        self._accept_at = 0.0
        self._follow_trace(self._begun_at)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="link-emulator", daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        return f"LinkProxy({self.endpoint} -> {self._target}, {self._trace.summary})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def endpoint(self) -> str:
        """Where it listens, with the port that was really taken."""
        return str(self._doorway.address)

    def tally(self) -> LinkTally:
        """For any thread, at any time."""
        delivered_bytes = self._switchboard.delivered_bytes
        return LinkTally(
            connections=self._switchboard.accepted,
            open=len(self._switchboard),
            bytes_up=delivered_bytes[Direction.UP],
            bytes_down=delivered_bytes[Direction.DOWN],
            stalls=self._switchboard.stalls,
        )

    def close(self) -> None:
        """Reset the open connections, give up the port, end the thread."""
        self._stopping.set()
        self._watcher.wake()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._turn()
        finally:
            self._switchboard.cut(self._clock.now())
            self._doorway.close()
            self._watcher.close()

    def _turn(self) -> None:
        now = self._clock.now()
        if now >= self._changes_at:
            self._follow_trace(now)
        self._switchboard.move(now)
        self._watch_doorway(now)
        wake_at = min(now + _LONGEST_WAIT_S, self._changes_at, self._switchboard.next_at())
        for owner, events in self._watcher.wait(wake_at - self._clock.now()):
            if owner is None:
                self._accept()
            else:
                self._switchboard.serve(*owner, events)

    def _follow_trace(self, now: float) -> None:
        stretch = self._trace.at(now - self._begun_at)
        self._changes_at = self._begun_at + stretch.end_s
        log.info("link is", extra=fields(conditions=stretch.conditions))
        outage = stretch.conditions.outage
        if outage is None:
            self._doorway.open()
            return
        self._unwatch_doorway()
        self._doorway.shut()
        if outage is Outage.CUT:
            self._switchboard.cut(now)

    def _watch_doorway(self, now: float) -> None:
        """Take connections whenever there is a place for one, and files for its sockets."""
        listener = self._doorway.listener
        if listener is None or now < self._accept_at or len(self._switchboard) >= MAX_CONNECTIONS:
            self._unwatch_doorway()
        else:
            self._watched = listener
            self._watcher.watch(listener, READ, None)

    def _unwatch_doorway(self) -> None:
        if self._watched is not None:
            self._watcher.leave(self._watched)
            self._watched = None

    def _accept(self) -> None:
        assert self._watched is not None, "it has just become ready"
        for _ in range(min(_ACCEPTS_AT_ONCE, MAX_CONNECTIONS - len(self._switchboard))):
            try:
                far = tcp_socket(self._target.family)
            except OSError as error:
                self._accept_later(error)
                return
            try:
                near, _ = self._watched.accept()
            except OSError as error:
                far.close()
                if not isinstance(error, BlockingIOError):
                    self._accept_later(error)
                return
            near.setblocking(False)
            self._switchboard.admit(near, far)

    def _accept_later(self, error: OSError) -> None:
        """Out of files, most likely: they don't come back by asking at once."""
        log.warning("connection not taken yet", extra=fields(reason=error.strerror))
        self._accept_at = self._clock.now() + _ACCEPT_AGAIN_S
