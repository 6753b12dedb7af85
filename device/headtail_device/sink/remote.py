"""Finished frames, told to a web server or a broker."""

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from headtail_device.delivery import Finished
from headtail_device.sink.base import SinkError
from headtail_device.sink.line import FrameLines
from headtail_device.sink.outbox import Outbox
from headtail_fabric.clock import Clock
from headtail_fabric.logs import fields

log = logging.getLogger(__name__)

_DRAIN_S: Final = 5.0


class NotCarriedError(Exception):
    """Nobody took the lines this time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The other side did not take the lines, and says whether it might later; `retry_after_s` is 0
    when it did not say when."""

    reason: str
    temporary: bool
    retry_after_s: float = 0.0


class Carrier(Protocol):
    """Brings lines to where they shall go. Worked by one thread."""

    @property
    def name(self) -> str:
        """For a person, without what is secret."""
        ...

    def carry(self, lines: Sequence[bytes]) -> Refusal | None:
        """None when they were taken. Raises NotCarriedError when there was no answer."""
        ...

    def close(self) -> None: ...


class RemoteSink:
    """The lines of `output.json`, up to a hundred at a time.

    Nothing waits for the other side: lines wait in a bounded queue, for a thread that tries again
    what fails for now, and lets go what is refused for good. A line whose answer was lost may come
    twice. At the end the queue gets `drain_s`.
    """

    def __init__(
        self,
        carrier: Carrier,
        *,
        lines: FrameLines,
        clock: Clock,
        limit: int,
        drain_s: float = _DRAIN_S,
    ) -> None:
        self._carrier = carrier
        self._lines = lines
        self._clock = clock
        self._drain_s = drain_s
        self._outbox = Outbox(limit=limit)
        self._changed = threading.Condition()
        self._close_by: float | None = None
        self._well = True
        self._thread = threading.Thread(target=self._work, name="remote-sink", daemon=True)
        self._thread.start()

    @property
    def path(self) -> str:
        return self._carrier.name

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
        self._thread.join(self._drain_s + 1)  # one that hangs is left to the end of the process
        with self._changed:
            missing = self._outbox.lost + len(self._outbox)
            total = missing + self._outbox.sent
        if missing:
            raise SinkError(f"{self.path}: {missing} of {total} lines were not taken")

    def _work(self) -> None:
        while (batch := self._next()) is not None:
            try:
                refusal = self._carrier.carry(batch)
            except NotCarriedError as error:
                refusal = Refusal(reason=str(error), temporary=True)
            if refusal is not None:
                self._tell(refusal)
            if refusal is not None and refusal.temporary:
                self._again(refusal.retry_after_s)
                continue
            self._well = refusal is None
            with self._changed:
                (self._outbox.delivered if refusal is None else self._outbox.refused)()
        self._carrier.close()

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

    def _tell(self, refusal: Refusal) -> None:
        """Once, until it is well again."""
        if self._well:
            what = "lines wait" if refusal.temporary else "lines are refused for good"
            log.warning(what, extra=fields(sink=self.path, reason=refusal.reason))
        self._well = False
