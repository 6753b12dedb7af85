"""When a node samples, when it speaks, when it sleeps. Knows no clock: `now` is handed in.

sample   every `sample_ms`
connect  when `batch` records wait, when one is urgent, when `report_ms` have passed; after a
         failure not before the back-off is over
wait     until the next of them
"""

import struct

SAMPLE, CONNECT, WAIT = 1, 2, 3
_KEPT = "<4sIIIBB"
_MAGIC = b"HTD1"
_LONGEST_MS = 86400000


class Duty:
    """`kept`: what `pack` gave before a deep sleep, after which less is left of each interval."""

    def __init__(self, sample_ms, report_ms, batch, backoff, now, kept=b""):
        self._sample_ms = sample_ms
        self._report_ms = report_ms
        self._batch = batch
        self._backoff = backoff
        self._sample_at, self._report_at, self._connect_from = now, now, now
        self._urgent = False
        if len(kept) >= struct.calcsize(_KEPT) and kept[:4] == _MAGIC:
            _, sample, report, pause, failures, urgent = struct.unpack_from(_KEPT, kept)
            self._sample_at += min(sample, sample_ms)
            self._report_at += min(report, report_ms)
            self._connect_from += min(pause, _LONGEST_MS)
            backoff.failures = failures
            self._urgent = bool(urgent)

    def due(self, now, waiting):
        """(what, milliseconds until then or 0). `waiting`: records that are not acknowledged."""
        if now >= self._sample_at:
            return SAMPLE, 0
        wish = now >= self._report_at or self._urgent or waiting >= self._batch
        if wish and now >= self._connect_from:
            return CONNECT, 0
        speak_at = self._connect_from if wish else self._report_at
        return WAIT, max(1, min(self._sample_at, speak_at) - now)

    @property
    def failures(self):
        """Tries in a row that reached nobody."""
        return self._backoff.failures

    def may_connect(self, now):
        """Whether no back-off is in the way."""
        return now >= self._connect_from

    def until_sample(self, now):
        """Milliseconds."""
        return max(0, self._sample_at - now)

    def silence_ms(self, now):
        """How long nothing will be said, if nothing happens."""
        return max(0, self._report_at - now)

    def urgent(self):
        """What was sampled can't wait for the batch."""
        self._urgent = True

    def sampled(self, now):
        """The next one keeps the rhythm, unless it is long overdue."""
        self._sample_at += self._sample_ms
        if self._sample_at <= now:
            self._sample_at = now + self._sample_ms

    def reported(self, now):
        """All was said."""
        self._urgent = False
        self._report_at = now + self._report_ms
        self._backoff.succeeded()

    def failed(self, now, refused=False):
        """Nobody could be reached, or this node is not wanted, for which asking again soon is of
        no use; gives the milliseconds until the next try."""
        if refused:
            self._backoff.failures = 255
        wait = self._backoff.failed()
        self._connect_from = now + wait
        return wait

    def pack(self, now, slept_ms):
        """What to keep for after a sleep of so long."""
        times = (self._sample_at, self._report_at, self._connect_from)
        left = [max(0, at - now - slept_ms) for at in times]
        return struct.pack(_KEPT, _MAGIC, *left, self._backoff.failures, self._urgent)
