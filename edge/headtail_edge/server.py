"""What comes in at the port, and what becomes of it.

request -> known bundle? -> known cut? -> right tensor? -> room in the queue? -> workers -> port
                | no           | no           | no              | no
             (intake)       UNKNOWN_CUT   BAD_PAYLOAD      busy, retry after
          UNKNOWN_BUNDLE
"""

import logging
import threading
from typing import Final, assert_never

from headtail_edge.admission import RequestRefusedError, check
from headtail_edge.intake import Intake
from headtail_edge.job import Job
from headtail_edge.job_queue import JobQueue
from headtail_edge.metrics import EdgeMetrics, Outcome
from headtail_edge.plan import TailPlan
from headtail_edge.push import BundleOffered
from headtail_edge.registry import BundleRegistry
from headtail_edge.worker import WorkerPool
from headtail_fabric.clock import Clock
from headtail_fabric.logs import fields
from headtail_fabric.peer.events import (
    BundlePartArrived,
    RequestArrived,
    RequestCancelled,
    ServerEvent,
    SessionClosed,
    SessionOpened,
)
from headtail_fabric.peer.ports import ServerPort
from headtail_fabric.wire import ErrorCode

_POLL_S: Final = 0.2
_DRAIN_POLL_S: Final = 0.02
_MEASURE_S: Final = 1.0
_ASKED_AT_ONCE: Final = 4

log = logging.getLogger(__name__)


class EdgeServer:
    """The loop between port and queue. One thread calls `run`, then `drain`."""

    def __init__(
        self,
        *,
        port: ServerPort,
        registry: BundleRegistry,
        queue: JobQueue,
        intake: Intake | None,
        metrics: EdgeMetrics,
        max_pixels: int,
        clock: Clock,
    ) -> None:
        self._port = port
        self._registry = registry
        self._queue = queue
        self._intake = intake
        self._metrics = metrics
        self._max_pixels = max_pixels
        self._clock = clock
        self._sessions: dict[bytes, SessionOpened] = {}
        self._stopping = False
        self._measure_at = clock.now()

    def __repr__(self) -> str:
        state = "stopping" if self._stopping else "serving"
        return f"<EdgeServer {state}, {len(self._sessions)} sessions, {self._queue!r}>"

    def run(self, stop: threading.Event) -> None:
        """Serve until `stop` is set."""
        while not stop.is_set():
            event = self._port.poll(_POLL_S)
            if event is not None:
                self.handle(event)
            if self._clock.now() >= self._measure_at:
                self._measure_at = self._clock.now() + _MEASURE_S
                load = self._queue.load()
                self._metrics.load(waiting=load.waiting, running=load.running)

    def drain(self, pool: WorkerPool, grace_s: float) -> None:
        """Accept nothing more, finish what was accepted for up to `grace_s`, fail the rest."""
        self._stopping = True
        self._queue.close()
        until = self._clock.now() + grace_s
        while pool.alive and self._clock.now() < until:
            event = self._port.poll(_DRAIN_POLL_S)
            if event is not None:
                self.handle(event)
        for job in self._queue.abandon():
            self._fail(job.session, job.id, ErrorCode.SHUTTING_DOWN, "the edge is shutting down")

    def handle(self, event: ServerEvent) -> None:
        """Deal with one event; never waits."""
        match event:
            case RequestArrived():
                self._requested(event)
            case RequestCancelled():
                self._cancelled(event)
            case SessionOpened():
                self._opened(event)
            case SessionClosed():
                self._closed(event)
            case BundlePartArrived():
                if self._intake is not None:
                    self._intake.post(event)
            case _:
                assert_never(event)

    def _requested(self, event: RequestArrived) -> None:
        session, request = event.session, event.request
        try:
            if self._stopping:
                raise RequestRefusedError(ErrorCode.SHUTTING_DOWN, "the edge is shutting down")
            plan = self._plan(event)
            tensor = check(plan, request.tensors, max_pixels=self._max_pixels)
        except RequestRefusedError as error:
            self._fail(session, request.id, error.code, error.message)
            return
        job = Job(
            session=session,
            id=request.id,
            plan=plan,
            tensor=tensor,
            payload=event.payloads[0],
            arrived_at=event.arrived_at,
            deadline_at=event.deadline_at,
        )
        refusal = self._queue.put(job)
        if refusal is not None:
            hints = self._queue.load().hints()
            self._port.busy(session, job.id, retry_after_s=refusal.retry_after_s, hints=hints)
            self._metrics.ended(Outcome.BUSY)

    def _plan(self, event: RequestArrived) -> TailPlan:
        digest, cut = event.request.bundle, event.request.cut
        plan = self._registry.plan(digest, cut)
        if plan is not None:
            return plan
        bundle = self._registry.get(digest)
        if bundle is not None:
            raise RequestRefusedError(ErrorCode.UNKNOWN_CUT, f"{bundle.name} has no cut {cut!r}")
        raise RequestRefusedError(ErrorCode.UNKNOWN_BUNDLE, self._lacking(event.session, digest))

    def _lacking(self, session: bytes, digest: bytes) -> str:
        opened = self._sessions.get(session)
        if self._intake is None or opened is None or not opened.can_push:
            return "this edge does not serve that bundle"
        return self._intake.offered(BundleOffered(session=session, user=opened.user, digest=digest))

    def _cancelled(self, event: RequestCancelled) -> None:
        job = self._queue.cancel(event.session, event.id)
        if job is not None:
            expired = job.deadline_at <= self._clock.now()
            self._metrics.ended(Outcome.EXPIRED if expired else Outcome.CANCELLED)

    def _opened(self, event: SessionOpened) -> None:
        self._sessions[event.session] = event
        self._metrics.sessions(len(self._sessions))
        log.info("session opened", extra=fields(session=event.session, **_who(event)))
        # A device need not ask for what it was not offered: it may just wait.
        for digest in event.bundles[:_ASKED_AT_ONCE]:
            if self._registry.get(digest) is None:
                self._lacking(event.session, digest)

    def _closed(self, event: SessionClosed) -> None:
        self._sessions.pop(event.session, None)
        self._metrics.sessions(len(self._sessions))
        dropped = self._queue.drop_session(event.session)
        self._metrics.ended(Outcome.CANCELLED, len(dropped))
        if self._intake is not None:
            self._intake.post(event)
        log.info("session closed", extra=fields(session=event.session, reason=event.reason))

    def _fail(self, session: bytes, request_id: int, code: ErrorCode, message: str) -> None:
        self._port.fail(session, request_id, code, message)
        self._metrics.ended(Outcome.FAILED)


def _who(event: SessionOpened) -> dict[str, str]:
    return {"name": event.name, "user": event.user}
