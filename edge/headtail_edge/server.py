"""What comes in at the port, and what becomes of it.

request -> within its rate? -> known bundle, cut? -> right tensor? -> in time? -> workers -> port
                | no                 | no                | no           | no
           busy, retry after   UNKNOWN_BUNDLE (intake)  BAD_PAYLOAD   busy, retry after,
                               UNKNOWN_CUT                            perhaps a better way
"""

import logging
import threading
from typing import Final, assert_never

from headtail_edge.admission import Reason, Refusal
from headtail_edge.canary import Canaries
from headtail_edge.forward import Forwarder
from headtail_edge.health import Health
from headtail_edge.intake import Intake
from headtail_edge.job import Job
from headtail_edge.job_queue import JobQueue
from headtail_edge.metrics import EdgeMetrics, Outcome
from headtail_edge.plan import TailPlan
from headtail_edge.push import BundleOffered
from headtail_edge.rate_limit import RateLimits
from headtail_edge.registry import BundleRegistry
from headtail_edge.request_check import RequestRefusedError, check
from headtail_edge.tail_opener import TailOpener
from headtail_edge.tenants import Flow, Tenants
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
    TailAnnounced,
)
from headtail_fabric.peer.ports import ServerPort
from headtail_fabric.wire import ErrorCode

_POLL_S: Final = 0.2
_DRAIN_POLL_S: Final = 0.02
_MEASURE_S: Final = 1.0
_ASKED_AT_ONCE: Final = 4
_TOGETHER: Final = 64
"""Events that one turn of the loop may deal with."""

log = logging.getLogger(__name__)


class EdgeServer:
    """The loop between port and queue. One thread calls `run`, then `drain`."""

    def __init__(
        self,
        *,
        port: ServerPort,
        registry: BundleRegistry,
        queue: JobQueue,
        tenants: Tenants,
        canaries: Canaries,
        intake: Intake | None,
        metrics: EdgeMetrics,
        max_pixels: int,
        health: Health,
        clock: Clock,
        forwarder: Forwarder | None = None,
        opener: TailOpener | None = None,
    ) -> None:
        self._port = port
        self._registry = registry
        self._queue = queue
        self._tenants = tenants
        self._canaries = canaries
        self._rates = RateLimits()
        self._flows: dict[bytes, Flow] = {}
        self._intake = intake
        self._metrics = metrics
        self._max_pixels = max_pixels
        self._health = health
        self._forwarder = forwarder
        self._opener = opener
        self._clock = clock
        self._sessions: dict[bytes, SessionOpened] = {}
        self._arrived: list[Job] = []
        self._stopping = False
        self._measure_at = clock.now()

    def __repr__(self) -> str:
        state = "stopping" if self._stopping else "serving"
        return f"<EdgeServer {state}, {len(self._sessions)} sessions, {self._queue!r}>"

    def run(self, stop: threading.Event) -> None:
        """Serve until `stop` is set."""
        while not stop.is_set():
            self._turn(_POLL_S)
            if self._clock.now() >= self._measure_at:
                self._measure_at = self._clock.now() + _MEASURE_S
                load = self._queue.load()
                self._metrics.load(waiting=load.waiting, running=load.running, queue_s=load.queue_s)
                self._port.advertise(load.hints())

    def drain(self, pool: WorkerPool, grace_s: float) -> None:
        """Accept nothing more, finish what was accepted for up to `grace_s`, fail the rest."""
        self._stopping = True
        self._health.stopping()
        self._queue.close()
        until = self._clock.now() + grace_s
        while (pool.alive or self._forwarded) and self._clock.now() < until:
            self._turn(_DRAIN_POLL_S)
        forwarded = self._forwarder.abandon() if self._forwarder is not None else []
        for job in [*self._queue.abandon(), *forwarded]:
            self._fail(job.session, job.id, ErrorCode.SHUTTING_DOWN, "the edge is shutting down")

    @property
    def _forwarded(self) -> int:
        return len(self._forwarder) if self._forwarder is not None else 0

    def _turn(self, wait_s: float) -> None:
        """Deal with what has come, the requests of it together: workers that wake for the first one
        would compute it alone, and take turns with this thread for the interpreter."""
        self._health.turned()
        for _ in range(_TOGETHER):
            event = self._port.poll(wait_s)
            if event is None:
                break
            self._dispatch(event)
            wait_s = 0.0
        self._queue_arrived()

    def handle(self, event: ServerEvent) -> None:
        """Deal with one event; never waits."""
        self._dispatch(event)
        self._queue_arrived()

    def _dispatch(self, event: ServerEvent) -> None:
        if not isinstance(event, RequestArrived):
            self._queue_arrived()  # before it: it may be about one of them
        match event:
            case RequestArrived():
                self._requested(event)
            case RequestCancelled():
                self._cancelled(event)
            case SessionOpened():
                self._opened(event)
            case SessionClosed():
                self._closed(event)
            case TailAnnounced():
                self._announced(event)
            case BundlePartArrived():
                if self._intake is not None:
                    self._intake.post(event)
            case _:
                assert_never(event)

    def _requested(self, event: RequestArrived) -> None:
        session, request = event.session, event.request
        self._metrics.requested(event.user)
        share = self._flow(session, event.user)
        if (refusal := self._too_often(event, share)) is not None:
            self._busy(session, request.id, refusal)
            return
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
            share=share,
        )
        self._arrived.append(job)

    def _queue_arrived(self) -> None:
        if not self._arrived:
            return
        jobs, self._arrived = self._arrived, []
        for job, refusal in self._queue.put_all(jobs).items():
            if self._forwarder is None or not self._forwarder.take(job):
                self._busy(job.session, job.id, refusal)

    def _too_often(self, event: RequestArrived, share: Flow) -> Refusal | None:
        if share.rate is None:
            return None
        device = event.user or event.session.hex()
        retry_after_s = self._rates.take(device, share.rate, event.arrived_at)
        if retry_after_s <= 0:
            return None
        return Refusal(reason=Reason.RATE, retry_after_s=retry_after_s)

    def _flow(self, session: bytes, user: str) -> Flow:
        flow = self._flows.get(session)
        if flow is None:
            flow = self._flows[session] = self._tenants.flow(user, session)
        return flow

    def _busy(self, session: bytes, request_id: int, refusal: Refusal) -> None:
        self._port.busy(
            session,
            request_id,
            retry_after_s=refusal.retry_after_s,
            hints=self._queue.load().hints(),
            instead=refusal.instead,
        )
        self._metrics.refused(refusal)

    def _plan(self, event: RequestArrived) -> TailPlan:
        digest, cut = event.request.bundle, event.request.cut
        plan = self._registry.plan(digest, cut)
        if plan is not None and self._canaries.offered(self._device(event), digest):
            return plan
        if plan is not None:
            message = "this edge does not offer that bundle to this device yet"
            raise RequestRefusedError(ErrorCode.UNKNOWN_BUNDLE, message)
        bundle = self._registry.get(digest)
        if bundle is not None:
            raise RequestRefusedError(ErrorCode.UNKNOWN_CUT, f"{bundle.name} has no cut {cut!r}")
        raise RequestRefusedError(ErrorCode.UNKNOWN_BUNDLE, self._lacking(event.session, digest))

    def _device(self, event: RequestArrived | TailAnnounced) -> str:
        opened = self._sessions.get(event.session)
        return event.user or (opened.name if opened is not None else "")

    def _lacking(self, session: bytes, digest: bytes) -> str:
        opened = self._sessions.get(session)
        if self._intake is None or opened is None or not opened.can_push:
            return "this edge does not serve that bundle"
        return self._intake.offered(BundleOffered(session=session, user=opened.user, digest=digest))

    def _cancelled(self, event: RequestCancelled) -> None:
        if self._forwarder is not None and self._forwarder.cancel(event.session, event.id):
            return
        job = self._queue.cancel(event.session, event.id)
        if job is not None:
            expired = job.deadline_at <= self._clock.now()
            self._metrics.ended(Outcome.EXPIRED if expired else Outcome.CANCELLED)

    def _announced(self, event: TailAnnounced) -> None:
        plan = self._registry.plan(event.bundle, event.cut)
        if plan is None or not self._canaries.offered(self._device(event), event.bundle):
            return  # a request would be refused, too
        if self._opener is not None:
            self._opener.due(plan)
        if self._forwarder is not None:
            self._forwarder.announce(event.bundle, event.cut, event.due_s)

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
        self._flows.pop(event.session, None)
        self._metrics.sessions(len(self._sessions))
        if self._forwarder is not None:
            self._forwarder.drop_session(event.session)
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
