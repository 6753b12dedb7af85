"""Waiting for several parties at once: who has not answered is asked again, then given up."""

from headtail_prifi.core.seat import Seat
from headtail_prifi.setup.core import Outgoing


class Chase:
    """What each party was sent, until it answers. To ask twice changes nothing there."""

    def __init__(
        self, frames: dict[Seat, bytes], *, now: float, resend_s: float, patience_s: float
    ) -> None:
        self._frames = dict(frames)
        self._resend_s = resend_s
        self._resend_at = now + resend_s
        self._give_up_at = now + patience_s

    @property
    def waiting(self) -> list[Seat]:
        """Who has not answered."""
        return list(self._frames)

    def answered(self, seat: Seat) -> bool:
        """Note an answer; whether one was waited for."""
        return self._frames.pop(seat, None) is not None

    def next_timer(self) -> float | None:
        """When to call `due` and `expired`; None when nobody is waited for."""
        return min(self._resend_at, self._give_up_at) if self._frames else None

    def due(self, now: float) -> list[Outgoing]:
        """What must be sent again now."""
        if now < self._resend_at:
            return []
        self._resend_at = now + self._resend_s
        return [Outgoing(seat, frame) for seat, frame in self._frames.items()]

    def expired(self, now: float) -> list[Seat]:
        """Who did not answer in time; they are no longer waited for."""
        if now < self._give_up_at:
            return []
        silent = list(self._frames)
        self._frames.clear()
        return silent
