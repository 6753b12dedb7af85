"""Finished frames, told to a web server."""

import http.client
import logging
import threading
from typing import Final, Protocol

from headtail_device.delivery import Finished
from headtail_device.sink.base import SinkError
from headtail_device.sink.line import FrameLines
from headtail_device.sink.outbox import Outbox
from headtail_device.sink.post import Reply
from headtail_fabric.clock import Clock
from headtail_fabric.logs import fields

log = logging.getLogger(__name__)

_DRAIN_S: Final = 5.0


class Post(Protocol):
    """What is used of `HttpPost`."""

    name: str

    def __call__(self, body: bytes) -> Reply: ...

    def close(self) -> None: ...


class WebhookSink:
    """The lines of `output.json`, posted as application/x-ndjson, up to a hundred at a time.

    Nothing waits for the server: lines wait in a bounded queue, for a thread that tries again what
    fails for now (no answer, 408, 425, 429, 5xx), and lets go what is refused for good. A line
    whose answer was lost may come twice. At the end the queue gets `drain_s`.
    """

    def __init__(
        self, post: Post, *, lines: FrameLines, clock: Clock, limit: int, drain_s: float = _DRAIN_S
    ) -> None:
        self._post = post
        self._lines = lines
        self._clock = clock
        self._drain_s = drain_s
        self._outbox = Outbox(limit=limit)
        self._changed = threading.Condition()
        self._close_by: float | None = None
        self._well = True
        self._thread = threading.Thread(target=self._work, name="webhook", daemon=True)
        self._thread.start()

    @property
    def path(self) -> str:
        return self._post.name

    def write(self, finished: Finished) -> None:
        line = self._lines.line(finished.record)
        with self._changed:
            self._outbox.add(line)
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            if self._close_by is None:
                self._close_by = self._clock.now() + self._drain_s
            self._changed.notify_all()
        self._thread.join(self._drain_s + 1)  # a post that hangs is left to the end of the process
        with self._changed:
            missing = self._outbox.lost + len(self._outbox)
            total = missing + self._outbox.sent
        if missing:
            raise SinkError(f"{self.path}: {missing} of {total} lines were not taken")

    def _work(self) -> None:
        while (batch := self._next()) is not None:
            try:
                reply = self._post(b"".join(batch))
            except (OSError, http.client.HTTPException) as error:
                self._tell(f"{type(error).__name__}: {error}")
                self._again(0.0)
                continue
            if reply.temporary:
                self._tell(f"status {reply.status}")
                self._again(reply.retry_after_s)
                continue
            if not reply.accepted:
                self._tell(f"status {reply.status}: the lines are not sent again")
            self._well = reply.accepted
            with self._changed:
                (self._outbox.delivered if reply.accepted else self._outbox.refused)()
        self._post.close()

    def _next(self) -> list[bytes] | None:
        """Waits for what is to be sent; None when it is time to end."""
        with self._changed:
            while True:
                now = self._clock.now()
                batch = self._outbox.next(now)
                if batch is not None:
                    return batch
                wait_s = self._outbox.due_in_s(now)
                close_by = self._close_by
                if close_by is not None and (wait_s is None or now + wait_s > close_by):
                    return None
                self._changed.wait(wait_s)

    def _again(self, retry_after_s: float) -> None:
        with self._changed:
            self._outbox.failed(self._clock.now(), retry_after_s=retry_after_s)

    def _tell(self, reason: str) -> None:
        """Once, until it is well again."""
        if self._well:
            log.warning("the webhook fails", extra=fields(webhook=self.path, reason=reason))
        self._well = False
