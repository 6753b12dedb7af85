"""Tells the edge that a tail is due, while the head for it still runs.

Whoever serves the tail may have put it away since the last request (`headtail_cloud.instances`),
and gets it ready in the time that the head takes. Steady work keeps it ready by itself, so only a
frame after a pause is announced, and only once no gate of this device can end it any more.
"""

from typing import Final

from headtail_fabric.clock import Clock
from headtail_fabric.peer.ports import ClientPort

PAUSE_S: Final = 1.0
"""Since the last request, after which the next is announced."""
_NEWEST_WEIGHT: Final = 0.2


class Announcer:
    """`on` is False where nothing is to be said beforehand."""

    def __init__(self, *, port: ClientPort, digest: bytes, clock: Clock, on: bool = True) -> None:
        self._port = port
        self._digest = digest
        self._clock = clock
        self._on = on
        self._passed_at = clock.now()
        self._sent_at: float | None = None
        self._takes_s: dict[str, float] = {}

    def passed(self, cut: str) -> None:
        """No gate will end this frame: its request follows when head and coder are done."""
        now = self._passed_at = self._clock.now()
        if self._on and (self._sent_at is None or now - self._sent_at >= PAUSE_S):
            due_s = self._takes_s.get(cut, 0.0)
            self._port.announce_tail(bundle=self._digest, cut=cut, due_s=due_s)

    def sent(self, cut: str) -> None:
        """The request is on its way."""
        now = self._sent_at = self._clock.now()
        took_s = now - self._passed_at
        known = self._takes_s.get(cut, took_s)
        self._takes_s[cut] = known + _NEWEST_WEIGHT * (took_s - known)
