"""Tails that this edge can't compute in time, forwarded to a cloud.

    refused by the queue -> would the cloud be in time? -> cloud -> answer -> the device
                                 | no                        | refused, failed, out of reach
                               busy                       the queue again, else busy

A request that was forwarded is in the table until it is answered, whatever the answer: who takes it
out answers it, so there is exactly one.
"""

import logging
import threading
from enum import StrEnum
from typing import Final

from headtail_edge.job import Job
from headtail_edge.job_queue import JobQueue
from headtail_edge.metrics import EdgeMetrics, Outcome
from headtail_fabric.clock import Clock
from headtail_fabric.logs import fields
from headtail_fabric.peer.errors import WindowFullError
from headtail_fabric.peer.events import (
    Answered,
    BundleAccepted,
    BundleDeclined,
    BundleWanted,
    ClientEvent,
    Connected,
    Disconnected,
    Expired,
    Failed,
    Refused,
)
from headtail_fabric.peer.ports import ClientPort, ServerPort
from headtail_fabric.wire import Timings

log = logging.getLogger(__name__)

_POLL_S: Final = 0.2
_NEWEST_WEIGHT: Final = 0.2
"""Weight of the newest answer in the moving average of what the cloud takes."""
_CROWDED_S: Final = 30.0
"""After a refusal more are likely for so long."""
_HEADROOM: Final = 0.9
"""Share of what is left of a deadline that the forecast may take."""


class Forward(StrEnum):
    """What came of a request that was forwarded."""

    ANSWERED = "answered"
    RETURNED = "returned"
    """The cloud could not: it was computed here after all."""
    REFUSED = "refused"
    """And it could not be computed here either."""
    EXPIRED = "expired"
    CANCELLED = "cancelled"


class Forwarder:
    """The cloud, as the edge sees it. `take`, `cancel` and the like are for the server's thread,
    `run` for one of its own."""

    def __init__(
        self,
        *,
        cloud: ClientPort,
        port: ServerPort,
        queue: JobQueue,
        metrics: EdgeMetrics,
        clock: Clock,
    ) -> None:
        self._cloud = cloud
        self._port = port
        self._queue = queue
        self._metrics = metrics
        self._clock = clock
        self._lock = threading.Lock()
        self._sent: dict[int, Job] = {}
        self._ids: dict[tuple[bytes, int], int] = {}
        self._served: frozenset[bytes] = frozenset()
        self._takes_s: float | None = None
        self._refused_at: float | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="forward", daemon=True)

    def __repr__(self) -> str:
        with self._lock:
            return f"<Forwarder {len(self._sent)} at the cloud, {len(self._served)} bundles there>"

    def __len__(self) -> int:
        with self._lock:
            return len(self._sent)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Hear nothing more of the cloud, and part from it."""
        self._stop.set()
        self._thread.join(timeout_s)
        self._cloud.close(timeout_s)

    def take(self, job: Job) -> bool:
        """Forward a job that was refused here, if the cloud would be in time by what is known of
        it. A job that is taken is answered from here."""
        self._refused_at = self._clock.now()
        left_s = job.deadline_at - self._refused_at
        if job.key.digest not in self._served or self._forecast_s(job) > _HEADROOM * left_s:
            return False
        with self._lock:
            try:
                sent_id = self._cloud.submit(
                    bundle=job.key.digest,
                    cut=job.key.cut,
                    tensors=[job.tensor],
                    payloads=[job.payload],
                    deadline_s=left_s,
                )
            except WindowFullError:
                return False
            self._sent[sent_id] = job
            self._ids[job.session, job.id] = sent_id
        return True

    def announce(self, bundle: bytes, cut: str, due_s: float) -> None:
        """A tail is due here. Where it would have to wait, or others were refused not long ago, it
        may be forwarded: then the cloud had better be ready."""
        now = self._clock.now()
        crowded = self._refused_at is not None and now - self._refused_at < _CROWDED_S
        if bundle in self._served and (crowded or self._queue.load().queue_s > due_s):
            self._cloud.announce_tail(bundle=bundle, cut=cut, due_s=due_s)

    def cancel(self, session: bytes, request_id: int) -> bool:
        """Its device no longer wants it; whether it was at the cloud."""
        with self._lock:
            sent_id = self._ids.get((session, request_id))
            if sent_id is None:
                return False
            self._forget(sent_id)
            self._cloud.cancel(sent_id)
        self._metrics.forwarded(Forward.CANCELLED)
        self._metrics.ended(Outcome.CANCELLED)
        return True

    def drop_session(self, session: bytes) -> None:
        """Its device is gone."""
        with self._lock:
            ids = [request_id for owner, request_id in self._ids if owner == session]
        for request_id in ids:
            self.cancel(session, request_id)

    def abandon(self) -> list[Job]:
        """Wait for nothing more; the jobs that were not answered."""
        with self._lock:
            jobs = list(self._sent.values())
            self._sent.clear()
            self._ids.clear()
        return jobs

    def handle(self, event: ClientEvent) -> None:
        """Deal with what the cloud said; never waits."""
        match event:
            case Connected(offer=offer):
                self._served = frozenset(offer.bundles)
                log.info("cloud reached", extra=fields(name=offer.name, bundles=len(self._served)))
            case Disconnected(reason=reason):
                self._served = frozenset()
                log.warning("cloud lost", extra=fields(reason=reason))
                self._return_all()
            case Answered():
                self._answered(event)
            case Refused(id=sent_id) | Failed(id=sent_id):
                self._return(sent_id)
            case Expired(id=sent_id):
                if self._taken_out(sent_id) is not None:
                    # The device's own port has told it, or will.
                    self._metrics.forwarded(Forward.EXPIRED)
                    self._metrics.ended(Outcome.EXPIRED)
            case BundleAccepted(digest=digest):
                self._served |= {digest}
            case BundleWanted() | BundleDeclined():
                pass  # the cloud has its own bundles

    def _work(self) -> None:
        while not self._stop.is_set():
            event = self._cloud.poll(_POLL_S)
            if event is not None:
                self.handle(event)

    def _forecast_s(self, job: Job) -> float:
        """From now to its answer; what was never measured is taken to cost nothing."""
        link = self._cloud.estimate()
        size = memoryview(job.payload).nbytes
        transfer_s = size / link.goodput_bytes_s if link.goodput_bytes_s else 0.0
        return (link.rtt_s or 0.0) + transfer_s + (self._takes_s or 0.0)

    def _answered(self, event: Answered) -> None:
        job = self._taken_out(event.id)
        takes_s = event.timings.resident_us / 1e6
        known = self._takes_s if self._takes_s is not None else takes_s
        self._takes_s = known + _NEWEST_WEIGHT * (takes_s - known)
        if job is None:
            return
        theirs = event.timings
        here_us = round((self._clock.now() - job.arrived_at) * 1e6)
        computing_us = theirs.decode_us + theirs.compute_us + theirs.post_us
        timings = Timings(
            queue_us=max(0, here_us - computing_us),
            decode_us=theirs.decode_us,
            compute_us=theirs.compute_us,
            post_us=theirs.post_us,
        )
        self._port.respond(
            job.session,
            job.id,
            tensors=event.tensors,
            payloads=event.payloads,
            timings=timings,
            hints=self._queue.load().hints(),
        )
        self._metrics.answered(timings)
        self._metrics.forwarded(Forward.ANSWERED)

    def _return_all(self) -> None:
        """The link is down: here they may still be in time, there hardly."""
        with self._lock:
            ids = list(self._sent)
        for sent_id in ids:
            self._cloud.cancel(sent_id)
            self._return(sent_id)

    def _return(self, sent_id: int) -> None:
        """The cloud has no answer for it: here there may be one by now."""
        job = self._taken_out(sent_id)
        if job is None:
            return
        refusal = self._queue.put(job)
        if refusal is None:
            self._metrics.forwarded(Forward.RETURNED)
            return
        self._metrics.forwarded(Forward.REFUSED)
        self._metrics.refused(refusal)
        self._port.busy(
            job.session,
            job.id,
            retry_after_s=refusal.retry_after_s,
            hints=self._queue.load().hints(),
            instead=refusal.instead,
        )

    def _taken_out(self, sent_id: int) -> Job | None:
        with self._lock:
            return self._forget(sent_id)

    def _forget(self, sent_id: int) -> Job | None:
        job = self._sent.pop(sent_id, None)
        if job is not None:
            del self._ids[job.session, job.id]
        return job
