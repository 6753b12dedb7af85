"""Whether there is anything to ask yet: models are loaded while the server is up already."""

from typing import TYPE_CHECKING, Final, TypeVar

from headtail_cloud.gateway import failure
from headtail_cloud.gateway.failure import Failure, FailureError
from headtail_cloud.gateway.service import TailService

if TYPE_CHECKING:
    from headtail_cloud.engines.remote import RemoteServers

    # It needs the extra `llm`, which a server of tails alone has not.
    from headtail_cloud.open_ai.service import TextService

_ServiceT = TypeVar("_ServiceT")

_FIRST_GUESS_S: Final = 5.0
"""How long loading takes, told to who asks meanwhile."""


class Deployment:
    """loading -> ready. Used in one asyncio loop."""

    def __init__(
        self, *, expected_s: float = _FIRST_GUESS_S, remotes: "RemoteServers | None" = None
    ) -> None:
        self._expected_s = expected_s
        self.remotes = remotes
        self._tails: TailService | None = None
        self._texts: TextService | None = None

    def __repr__(self) -> str:
        services = [service for service in (self._tails, self._texts) if service is not None]
        return f"<Deployment {'ready' if services else 'loading'}>"

    def ready(self, tails: TailService | None, texts: "TextService | None" = None) -> None:
        """All models are loaded."""
        self._tails, self._texts = tails, texts

    def not_ready(self) -> Failure | None:
        """Why a load balancer should send requests elsewhere, if it should."""
        services = [service for service in (self._tails, self._texts) if service is not None]
        if not services and not (self.remotes is not None and self.remotes.healthy):
            return failure.cold_start(self._expected_s)
        if not all(service.alive for service in services):
            return Failure(status=503, code="failed", message="the scheduler failed")
        return None

    @property
    def has_texts(self) -> bool:
        """Whether a language model runs here."""
        return self._texts is not None

    def tails(self) -> TailService:
        """Raises FailureError while there is none."""
        return self._served(self._tails, "tails")

    def texts(self) -> "TextService":
        """Raises FailureError while there is none."""
        return self._served(self._texts, "texts")

    def _served(self, service: _ServiceT | None, what: str) -> _ServiceT:
        if failed := self.not_ready():
            raise FailureError(failed)
        if service is None:
            message = f"this server has no models for {what}"
            raise FailureError(Failure(status=404, code="no-such-model", message=message))
        return service
