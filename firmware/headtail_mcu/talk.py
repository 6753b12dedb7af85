"""A node's conversation with its gateway, without a link.

    GREETING --WELCOME--> TALKING        HELLO again whenever the gateway has forgotten this node

Records go out in their order, a few at once, until they are acknowledged; what is lost is sent
again. `receive` takes a message, `to_send` gives the next one, `next_timer` when to ask again.
"""

from . import messages
from .errors import LinkError, RefusedError

_WINDOW = 4
_TRIES = 5


class Talk:
    """`hello`: (firmware, head, release, log, wake) as HELLO has them. `retry_ms`: how long to
    wait for an answer before asking again. Raises LinkError when nobody answers any more,
    RefusedError when this node is not wanted."""

    def __init__(self, boot, log, hello, name, now, retry_ms=2000):
        self._boot = boot
        self._log = log
        self._hello = hello
        self._name = name
        self._retry_ms = retry_ms
        self._greeted = False
        self._greet = True
        self._acked = self._sent = log.acked
        self._searched = 0
        self._heard_at = now
        self._asked_at = now
        self._unanswered = 0
        self._wants = None
        self._want = False

    @property
    def idle(self):
        """Whether all that there was to say was said and heard."""
        return (
            self._greeted
            and self._wants is None
            and self._acked == self._sent
            and max(self._acked, self._searched) >= self._log.newest
        )

    @property
    def acked(self):
        """Up to where the gateway has everything."""
        return self._acked

    def receive(self, data, now):
        """(kind, fields) of what the node itself has to look at, else None."""
        kind, boot, fields = messages.decode(data)
        if boot != self._boot:
            return None  # for the one that this node was before its reset, or an old recording
        self._heard_at, self._unanswered = now, 0
        if kind == messages.STRANGER:
            self._greeted, self._greet = False, True
            self._sent = self._acked
            return None
        if kind == messages.REFUSED:
            raise RefusedError("the gateway refused this node: " + _text(fields[0]))
        if kind == messages.ACK:
            if self._acked < fields[0] <= self._sent:
                self._acked = fields[0]
                self._asked_at = now
            return None
        if kind == messages.WELCOME:
            self._greeted, self._greet = True, False
        return kind, fields

    def to_send(self, now):
        """The next message, or None."""
        if self._greet:
            self._greet = False
            self._asked_at = now
            firmware, head, release, log, wake = self._hello
            return messages.hello(
                self._boot, firmware, head, release, log, self._acked, wake, self._name
            )
        if not self._greeted:
            return None
        if self._want:
            self._want = False
            self._asked_at = now
            return messages.want(self._boot, *self._wants)
        return self._next_record(now)

    def want(self, release, offset):
        """Ask for a piece of an update, until `got`."""
        self._wants, self._want = (release, offset), True

    def got(self):
        """The update is over, one way or the other."""
        self._wants = None

    def next_timer(self, now):
        """Milliseconds until `on_timer`, or None."""
        return max(1, self._asked_at + self._retry_ms - now) if self._awaits() else None

    def on_timer(self, now):
        """Ask again for what is overdue."""
        if not self._awaits() or now - self._asked_at < self._retry_ms:
            return
        self._unanswered += 1
        if self._unanswered >= _TRIES:
            raise LinkError(f"the gateway did not answer for {now - self._heard_at} ms")
        self._asked_at = now
        self._sent = self._acked
        self._greet = not self._greeted
        self._want = self._wants is not None

    def _awaits(self):
        return not self._greeted or self._sent > self._acked or self._wants is not None

    def _next_record(self, now):
        if self._log.newest <= self._sent or self._sent - self._acked >= _WINDOW:
            return None
        found = self._log.unacknowledged(1, self._sent)
        if not found:  # what is left can't be read any more
            self._searched = self._log.newest
            return None
        sequence, time, payload = found[0]
        if self._sent == self._acked:
            self._asked_at = now
        previous, self._sent = self._sent, sequence
        return messages.record(self._boot, sequence, previous, time, payload)


def _text(data):
    return "".join(chr(b) if 32 <= b < 127 else "?" for b in data)
