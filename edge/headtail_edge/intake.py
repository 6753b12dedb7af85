"""Taking bundles from devices: a thread beside the server, so that no disk delays a request."""

import logging
import queue
import threading
from collections.abc import Callable
from functools import partial
from typing import Final, assert_never

from headtail_edge.metrics import EdgeMetrics
from headtail_edge.part_store import PartStore
from headtail_edge.push import Append, Ask, BundleOffered, PushCore, Refuse, StartOver
from headtail_edge.pushed import PushedBundles
from headtail_edge.registry import BundleRegistry
from headtail_fabric.clock import Clock
from headtail_fabric.errors import HeadtailError
from headtail_fabric.logs import fields
from headtail_fabric.peer.events import BundlePartArrived, SessionClosed
from headtail_fabric.peer.ports import ServerPort

_WAITING: Final = 64
"""Messages between server and thread; beyond that parts and offers are dropped. A part is sent
again, an offer made again with the next request or session."""

log = logging.getLogger(__name__)

Message = BundleOffered | BundlePartArrived | SessionClosed


class Intake:
    """Asks for lacking bundles, collects their parts, and serves what proves to be good.

    `may_push` says whether the user of that name may. Of a bundle that is refused nothing is
    kept, and its sender is told why; after a while it is asked again.
    """

    def __init__(
        self,
        *,
        port: ServerPort,
        registry: BundleRegistry,
        core: PushCore,
        parts: PartStore,
        pushed: PushedBundles,
        may_push: Callable[[str], bool],
        metrics: EdgeMetrics,
        clock: Clock,
    ) -> None:
        self._port = port
        self._registry = registry
        self._core = core
        self._parts = parts
        self._pushed = pushed
        self._may_push = may_push
        self._metrics = metrics
        self._clock = clock
        self._messages: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="intake", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Finish what is in hand, for up to `timeout_s`. A bundle that is on its way stays on the
        disk as far as it came."""
        self._stopping.set()
        self.post(None)
        self._thread.join(timeout_s)

    def offered(self, offer: BundleOffered) -> str:
        """A session that can push uses a bundle that is not served; returns what to tell it."""
        if not self._may_push(offer.user):
            return "this edge does not serve that bundle, and takes none from this device"
        self.post(offer)
        reason = self._core.refusal(offer.user, offer.digest, self._clock.now())
        if reason is not None:
            return f"this edge did not take that bundle: {reason}"
        return "this edge does not serve that bundle yet, and asks for it"

    def post(self, message: Message | None) -> None:
        """Leave a message for the thread, or just wake it; never waits."""
        may_be_lost = isinstance(message, BundleOffered | BundlePartArrived)
        if not may_be_lost or self._messages.qsize() < _WAITING:
            self._messages.put(message)

    def handle(self, message: Message) -> None:
        """What the thread does with a message."""
        match message:
            case SessionClosed():
                self._core.session_closed(message.session)
            case BundleOffered():
                if self._registry.get(message.digest) is None:
                    self._core.offered(message)
            case BundlePartArrived():
                self._attempt(message, partial(self._take, message))
            case _:
                assert_never(message)
        self.ask()

    def ask(self) -> None:
        """Take up the offers that can be taken up now."""
        while (offer := self._core.next_offer(self._clock.now())) is not None:
            self._attempt(offer, partial(self._take_up, offer))

    def work(self, timeout_s: float | None) -> bool:
        """Deal with the next message, waiting for one up to `timeout_s` or, with None, for good;
        without one, with what has become due. Returns whether there was one."""
        try:
            message = self._messages.get(timeout=timeout_s)
        except queue.Empty:
            message = None
        if message is not None:
            self.handle(message)
        else:
            self.ask()
        return message is not None

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.work(self._pause_s())
            except Exception:  # the next bundle may be a better one
                log.exception("intake failed")

    def _pause_s(self) -> float | None:
        due_at = self._core.next_timer()
        return None if due_at is None else max(0.0, due_at - self._clock.now())

    def _attempt(self, sender: BundleOffered | BundlePartArrived, act: Callable[[], None]) -> None:
        try:
            act()
        except HeadtailError as error:
            self._refuse(sender, error.message)
        except Exception:  # what this bundle brought about must not come again at once
            log.exception("intake failed", extra=fields(digest=sender.digest))
            self._refuse(sender, "the edge failed")

    def _take_up(self, offer: BundleOffered) -> None:
        held = self._parts.held(offer.digest)
        if held is not None and held.offset == held.total:
            # All of it came, and then the edge was stopped.
            self._serve(offer.digest, held.total)
        else:
            self._send(self._core.begin(offer, held, self._clock.now()))

    def _take(self, part: BundlePartArrived) -> None:
        decision = self._core.part(
            part.session,
            part.digest,
            offset=part.offset,
            total=part.total,
            size=memoryview(part.payload).nbytes,
            now=self._clock.now(),
        )
        match decision:
            case Append():
                self._append(part, decision)
            case StartOver():
                self._parts.discard(part.digest)
                self._send(decision.then)
            case Refuse():
                self._refuse(part, decision.reason)
            case Ask():
                self._send(decision)

    def _append(self, part: BundlePartArrived, decision: Append) -> None:
        self._parts.append(
            part.digest, offset=decision.offset, total=part.total, payload=part.payload
        )
        if decision.then is not None:
            self._send(decision.then)
        else:
            self._serve(part.digest, part.total)

    def _send(self, ask: Ask) -> None:
        self._port.need_bundle(ask.session, ask.digest, ask.offset)

    def _serve(self, digest: bytes, total: int) -> None:
        folder = self._pushed.take_in(self._parts.path(digest, total), digest)
        self._registry.load(folder, warm=True)
        self._core.served(digest)
        self._metrics.pushed(accepted=True)
        self._parts.discard(digest)

    def _refuse(self, sender: BundleOffered | BundlePartArrived, reason: str) -> None:
        user, digest = sender.user, sender.digest
        log.warning("pushed bundle refused", extra=fields(user=user, digest=digest, reason=reason))
        self._core.refused(user, digest, reason, self._clock.now())
        self._metrics.pushed(accepted=False)
        self._port.refuse_bundle(sender.session, digest, reason)
        self._parts.discard(digest)
