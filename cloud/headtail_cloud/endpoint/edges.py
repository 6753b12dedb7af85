"""What edges ask over ZeroMQ, and what they are told.

    the port's thread: poll -> the loop: request -> runtime -> answer -> the port

Each request is a task in the loop, ended by its answer, its caller or its session. A session has at
most as many as the port's window; what the runtime does not take is refused at once.
"""

import asyncio
import logging
import threading
from collections.abc import Iterable, Mapping
from typing import Final, cast

from headtail_cloud.core.actions import Finish, Outcome, Reason, Reject
from headtail_cloud.core.request import TailRequest
from headtail_cloud.core.task import Fault
from headtail_cloud.endpoint.tensors import answer, tail_input
from headtail_cloud.engines.served_tail import TailInputError, TailModel
from headtail_cloud.runtime.exchange import RuntimeBrokenError
from headtail_cloud.runtime.serving import Runtime
from headtail_cloud.tenants import ANYBODY
from headtail_fabric.clock import Clock
from headtail_fabric.codec.base import Array
from headtail_fabric.logs import fields
from headtail_fabric.peer.events import (
    RequestArrived,
    RequestCancelled,
    ServerEvent,
    SessionClosed,
    SessionOpened,
    TailAnnounced,
)
from headtail_fabric.peer.ports import ServerPort
from headtail_fabric.wire import ErrorCode, Hints, Timings

log = logging.getLogger(__name__)

_POLL_S: Final = 0.2
_JOIN_S: Final = 1.0
_GOODBYE_S: Final = 1.0

_Key = tuple[bytes, int]
"""Session and request."""


class EdgeEndpoint:
    """Between one port and the runtime. Made, started and closed in the runtime's loop."""

    def __init__(
        self, port: ServerPort, models: Iterable[TailModel], runtime: Runtime, *, clock: Clock
    ) -> None:
        self._port = port
        self._models = {(model.digest, model.cut): model for model in models}
        self._runtime = runtime
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[_Key, asyncio.Task[None]] = {}
        self._numbers = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="edges", daemon=True)

    def __repr__(self) -> str:
        return f"<EdgeEndpoint {self._port.endpoint}, {len(self._tasks)} here>"

    def start(self) -> None:
        self._port.serve_bundles(sorted({digest for digest, _ in self._models}))
        self._thread.start()

    async def close(self) -> None:
        """When the runtime has been closed: nothing is accepted any more, all has been said."""
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=_GOODBYE_S)
        self._stop.set()
        await asyncio.to_thread(self._thread.join, _JOIN_S)
        await asyncio.to_thread(self._port.close, _GOODBYE_S)

    def handle(self, event: ServerEvent) -> None:
        """Deal with one event, in the loop."""
        match event:
            case RequestArrived():
                self._requested(event)
            case RequestCancelled(session=session, id=request_id):
                self._end((session, request_id))
            case SessionOpened():
                self._opened(event)
            case TailAnnounced(bundle=bundle, cut=cut, due_s=due_s):
                if (model := self._models.get((bundle, cut))) is not None:
                    self._runtime.announce(model.segment, due_s)
            case SessionClosed(session=session, reason=reason):
                for key in [key for key in self._tasks if key[0] == session]:
                    self._end(key)
                log.info("session closed", extra=fields(session=session, reason=reason))
            case _:
                pass  # no bundle was asked for

    def _poll(self) -> None:
        while not self._stop.is_set():
            event = self._port.poll(_POLL_S)
            if event is None:
                continue
            try:
                self._loop.call_soon_threadsafe(self.handle, event)
            except RuntimeError:  # the loop is closed: nobody waits for this any more
                return

    def _opened(self, event: SessionOpened) -> None:
        """A head that starts says what its tails will be: they are made ready."""
        log.info("session opened", extra=fields(session=event.session, name=event.name))
        for digest in event.bundles:
            for (known, _), model in self._models.items():
                if known == digest:
                    self._runtime.announce(model.segment, 0.0)

    def _requested(self, event: RequestArrived) -> None:
        key = (event.session, event.request.id)
        task = self._loop.create_task(self._serve(event))
        self._tasks[key] = task
        task.add_done_callback(lambda _: self._tasks.pop(key, None))

    def _end(self, key: _Key) -> None:
        """Cancels the request in the runtime, too."""
        if task := self._tasks.get(key):
            task.cancel()

    async def _serve(self, event: RequestArrived) -> None:
        session, request = event.session, event.request
        model = self._models.get((request.bundle, request.cut))
        if model is None:
            known = any(digest == request.bundle for digest, _ in self._models)
            code = ErrorCode.UNKNOWN_CUT if known else ErrorCode.UNKNOWN_BUNDLE
            self._port.fail(session, request.id, code, "this cloud does not serve that")
            return
        try:
            given = tail_input(model, request.tensors, event.payloads)
        except TailInputError as error:
            self._port.fail(session, request.id, ErrorCode.BAD_PAYLOAD, error.message)
            return
        left_s = event.deadline_at - self._clock.now()
        if left_s <= 0:
            self._port.fail(session, request.id, ErrorCode.EXPIRED, "its deadline has passed")
            return
        self._numbers += 1
        exchange = self._runtime.submit(
            TailRequest(
                id=f"edge-{self._numbers}",
                tenant=event.user or ANYBODY,
                chain=(model.segment,),
                deadline_s=left_s,
                input=given,
            )
        )
        try:
            end = await exchange.end()
        except RuntimeBrokenError as error:
            self._port.fail(session, request.id, ErrorCode.INTERNAL, error.message)
            return
        if isinstance(end, Reject):
            self._refuse(event, end)
        else:
            self._tell(event, end)

    def _refuse(self, event: RequestArrived, reject: Reject) -> None:
        session, request_id = event.session, event.request.id
        if reject.reason is Reason.DRAINING:
            self._port.fail(session, request_id, ErrorCode.SHUTTING_DOWN, "the cloud is stopping")
            return
        self._port.busy(
            session, request_id, retry_after_s=reject.retry_after_s or 0.0, hints=self._hints()
        )

    def _tell(self, event: RequestArrived, end: Finish) -> None:
        session, request_id = event.session, event.request.id
        match end.outcome:
            case Outcome.DONE | Outcome.EXITED:
                tensors, payloads = answer(cast("Mapping[str, Array]", end.output))
                self._port.respond(
                    session,
                    request_id,
                    tensors=tensors,
                    payloads=payloads,
                    timings=_timings(end),
                    hints=self._hints(),
                )
                return
            case Outcome.EXPIRED:
                code = ErrorCode.EXPIRED
            case Outcome.CANCELLED:
                code = ErrorCode.SHUTTING_DOWN
            case Outcome.FAILED:
                code = ErrorCode.BAD_PAYLOAD if end.fault is Fault.INPUT else ErrorCode.INTERNAL
        self._port.fail(session, request_id, code, end.message or f"the request {end.outcome}")

    def _hints(self) -> Hints:
        return Hints(active=len(self._tasks))


def _timings(end: Finish) -> Timings:
    times = end.timeline
    started_at = times.started_at if times.started_at is not None else times.ended_at
    return Timings(
        queue_us=round(1e6 * (started_at - times.arrived_at)),
        compute_us=round(1e6 * (times.ended_at - started_at)),
    )
