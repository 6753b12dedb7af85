"""Whether the edge can be used now, as told by the port's events."""

from typing import Final

from headtail_fabric.peer.events import BundleAccepted, ClientEvent, Connected, Disconnected
from headtail_fabric.wire import ErrorCode

_UNTIL_TOLD_OTHERWISE: Final = frozenset(
    {
        ErrorCode.NO_SESSION,
        ErrorCode.NOT_ALLOWED,
        ErrorCode.UNKNOWN_BUNDLE,
        ErrorCode.UNKNOWN_CUT,
        ErrorCode.SHUTTING_DOWN,
    }
)
"""Refusals that the next request would meet too."""


class EdgeState:
    """`ready` when a session is open and the edge serves the bundle."""

    def __init__(self, bundle: bytes) -> None:
        self._bundle = bundle
        self._serves = False
        self._retry_at = float("-inf")
        self.connected = False
        self.name = ""

    def __repr__(self) -> str:
        return f"<EdgeState {self.name!r} connected={self.connected} ready={self.ready}>"

    @property
    def ready(self) -> bool:
        return self.connected and self._serves

    def on_event(self, event: ClientEvent) -> None:
        """Follow what concerns the connection; other events change nothing."""
        match event:
            case Connected():
                self.connected = True
                self.name = event.offer.name
                self._serves = self._bundle in event.offer.bundles
                self._retry_at = float("-inf")
            case Disconnected():
                self.connected = False
            case BundleAccepted(digest=digest) if digest == self._bundle:
                self._serves = True
            case _:
                pass

    def on_failure(self, code: ErrorCode) -> None:
        """A request failed for good; some codes mean that all others would too, until the edge
        accepts the bundle or a new session."""
        if code in _UNTIL_TOLD_OTHERWISE:
            self._serves = False

    def on_refusal(self, retry_after_s: float, now: float) -> None:
        """The edge was too busy."""
        self._retry_at = now + retry_after_s

    def retry_in_s(self, now: float) -> float:
        """For how long the edge asked not to be troubled."""
        return max(0.0, self._retry_at - now)
