"""Whether there is anything to ask yet: models are loaded while the server is up already."""

from typing import Final

from headtail_cloud.gateway import failure
from headtail_cloud.gateway.failure import Failure, FailureError
from headtail_cloud.gateway.service import TailService

_FIRST_GUESS_S: Final = 5.0
"""How long loading takes, told to who asks meanwhile."""


class Deployment:
    """loading -> ready. Used in one asyncio loop."""

    def __init__(self, *, expected_s: float = _FIRST_GUESS_S) -> None:
        self._expected_s = expected_s
        self._service: TailService | None = None

    def __repr__(self) -> str:
        return f"<Deployment {'ready' if self._service else 'loading'}>"

    def ready(self, service: TailService) -> None:
        """All models are loaded."""
        self._service = service

    def not_ready(self) -> Failure | None:
        """Why a load balancer should send requests elsewhere, if it should."""
        if self._service is None:
            return failure.cold_start(self._expected_s)
        if not self._service.alive:
            return Failure(status=503, code="failed", message="the scheduler failed")
        return None

    def service(self) -> TailService:
        """Raises FailureError while there is none."""
        failed = self.not_ready()
        if failed is not None or self._service is None:
            raise FailureError(failed or failure.cold_start(self._expected_s))
        return self._service
