"""When the relay opens the next round, and when the oldest open one is late."""

from headtail_prifi.round.options import RelayOptions


class Pacer:
    """Times only. While nobody has anything to say, rounds open ever further apart."""

    def __init__(self, options: RelayOptions) -> None:
        self._options = options
        self._idle_s = 0.0
        self._open_at = 0.0
        self._oldest_since = 0.0
        self._late_at: float | None = None

    def closed(self, now: float, *, busy: bool) -> None:
        """A round closed; `busy` when somebody waits to be heard."""
        options = self._options
        longer = min(options.idle_max_s, max(options.idle_min_s, 2 * self._idle_s))
        self._idle_s = 0.0 if busy else longer
        self._open_at = now + self._idle_s

    def wake(self, now: float) -> None:
        """Something came up: open at once."""
        self._idle_s = 0.0
        self._open_at = now

    def may_open(self, now: float) -> bool:
        """Whether it is time for the next round."""
        return now >= self._open_at

    def watch(self, now: float, *, waiting: bool) -> None:
        """Another round is the oldest open one now, or (not `waiting`) there is none."""
        self._oldest_since = now
        self._late_at = now + self._options.resend_s if waiting else None

    def late(self, now: float) -> bool:
        """Whether to ask again for what the oldest round lacks; asks to be asked again later."""
        if self._late_at is None or now < self._late_at:
            return False
        self._late_at = now + self._options.resend_s
        return True

    def lost(self, now: float) -> bool:
        """Whether the oldest round has waited long enough."""
        return now - self._oldest_since >= self._options.patience_s

    def timers(self, *, may_open: bool) -> list[float | None]:
        """When something is due here."""
        return [self._late_at, self._open_at if may_open else None]
