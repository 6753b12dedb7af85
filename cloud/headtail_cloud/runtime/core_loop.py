"""A sans-IO core in an asyncio loop: events go in, callers are told, timers are kept."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from headtail_cloud.core.actions import Finish, Reject
from headtail_cloud.core.events import DrainAsked, RequestArrived, RequestCancelled, TimePassed
from headtail_cloud.core.request import Request
from headtail_cloud.runtime.exchange import TOLD, Exchange, RuntimeBrokenError
from headtail_fabric.clock import Clock
from headtail_fabric.logs import fields

log = logging.getLogger(__name__)


class CoreLoop:
    """Made, used and closed in one asyncio loop.

    `on_event(event, now)` is the core; its actions are given to `perform`, and those that a caller
    is told to that caller's exchange, too. `next_timer(now)` says when it wants `TimePassed`,
    `idle` whether nothing is here; `fed` is called when an event has been dealt with.
    """

    def __init__(
        self,
        *,
        on_event: Callable[[Any, float], Sequence[object]],
        next_timer: Callable[[float], float | None],
        idle: Callable[[], bool],
        perform: Callable[[Any], None],
        fed: Callable[[], None],
        clock: Clock,
    ) -> None:
        self._on_event = on_event
        self._next_timer = next_timer
        self._is_idle = idle
        self._perform = perform
        self._fed = fed
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._exchanges: dict[str, Exchange] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._idle = asyncio.Event()
        self._broken = False
        self._closed = False

    @property
    def alive(self) -> bool:
        """Whether requests are served: not after a bug in the core."""
        return not self._broken

    def submit(self, request: Request) -> Exchange:
        """Raises ValueError when a request of that id is here."""
        if request.id in self._exchanges:
            raise ValueError(f"request {request.id!r} is here already")
        exchange = Exchange(request.id, self._cancel)
        self._exchanges[request.id] = exchange
        if self._broken:
            self._end_broken(request.id)
        else:
            self.feed(RequestArrived(request=request))
        return exchange

    def feed(self, event: object) -> None:
        """That has happened."""
        if self._broken:
            return
        try:
            for action in self._on_event(event, self._clock.now()):
                self._act(action)
        except Exception:  # a bug in the core: nobody is left waiting for it
            log.exception("the core failed", extra=fields(event=type(event).__name__))
            self._break()
            return
        self._set_timer()
        self._fed()
        if self._is_idle():
            self._idle.set()
        else:
            self._idle.clear()

    async def close(self, grace_s: float) -> None:
        """Accept nothing more; what was accepted has that long, then it is cancelled."""
        self.feed(DrainAsked())
        try:
            await asyncio.wait_for(self._idle.wait(), grace_s)
        except TimeoutError:
            for request_id in list(self._exchanges):
                self._cancel(request_id)
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _cancel(self, request_id: str) -> None:
        if request_id in self._exchanges:
            self.feed(RequestCancelled(request_id=request_id))

    def _act(self, action: object) -> None:
        self._perform(action)
        if not isinstance(action, TOLD):
            return
        self._exchanges[action.request_id].tell(action)
        if isinstance(action, Finish | Reject):
            del self._exchanges[action.request_id]

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now = self._clock.now()
        at = self._next_timer(now)
        if at is not None and not self._closed:
            self._timer = self._loop.call_later(max(0.0, at - now), self.feed, TimePassed())

    def _break(self) -> None:
        self._broken = True
        self._idle.set()
        for request_id in list(self._exchanges):
            self._end_broken(request_id)

    def _end_broken(self, request_id: str) -> None:
        error = RuntimeBrokenError("the scheduler failed", request_id=request_id)
        self._exchanges.pop(request_id).tell(error)
