"""What went wrong, as an HTTP answer: a status, a code for programs, a sentence for people.

| status | code | when |
|---|---|---|
| 400 | bad-request | not the protocol, or not this model's tensor |
| 401 | unknown-key | no API key, or a wrong one |
| 404 | no-such-model, not-found | |
| 408 | slow-request | the body did not come in time |
| 413 | too-large | the body, or a request that never fits |
| 422 | deadline | would be too late even on an idle machine |
| 429 | too-late, queue-full, tenant-limit, concurrency | come again after Retry-After |
| 500 | failed | the engine failed on it |
| 503 | cold-start | an instance is being started; come again after Retry-After |
| 503 | draining, overloaded | this server is stopping, or has too many requests in progress |
| 504 | expired | its deadline passed while it waited |
"""

import math
from dataclasses import dataclass
from typing import Final

from headtail_cloud.core.actions import Finish, Outcome, Reason, Reject
from headtail_cloud.core.task import Fault
from headtail_fabric.errors import HeadtailError


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """`retry_after_s`: when it makes sense to come again."""

    status: int
    code: str
    message: str
    retry_after_s: float | None = None

    @property
    def headers(self) -> dict[str, str]:
        """`Retry-After` counts whole seconds; `Retry-After-Ms`, which some clients know, is what
        was meant."""
        if self.retry_after_s is None:
            return {}
        return {
            "Retry-After": str(math.ceil(self.retry_after_s)),
            "Retry-After-Ms": str(math.ceil(1000 * self.retry_after_s)),
        }


class FailureError(HeadtailError):
    """A request can't be answered. The message says why."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


_REASONS: Final = {
    Reason.QUEUE_FULL: "too many requests wait",
    Reason.TENANT_LIMIT: "too many of this tenant's requests wait",
    Reason.TOO_LATE: "it would not be done in time",
    Reason.TOO_LARGE: "it is too large for this server",
    Reason.DRAINING: "this server is stopping",
    Reason.COLD_START: "an instance is being started",
}


def of_rejection(reject: Reject) -> Failure:
    """Why it was not accepted."""
    message = _REASONS[reject.reason]
    match reject.reason:
        case Reason.DRAINING:
            return Failure(status=503, code="draining", message=message)
        case Reason.COLD_START:
            return Failure(
                status=503,
                code="cold-start",
                message=message,
                retry_after_s=reject.retry_after_s,
            )
        case Reason.TOO_LARGE:
            return Failure(status=413, code="too-large", message=message)
        case Reason.TOO_LATE if reject.retry_after_s is None:
            message = "it would be too late even on an idle machine"
            return Failure(status=422, code="deadline", message=message)
    return Failure(
        status=429, code=reject.reason, message=message, retry_after_s=reject.retry_after_s
    )


def of_end(finish: Finish) -> Failure | None:
    """Why it has no answer; None when it has one."""
    match finish.outcome:
        case Outcome.DONE | Outcome.EXITED:
            return None
        case Outcome.EXPIRED:
            return Failure(status=504, code="expired", message="its deadline passed")
        case Outcome.CANCELLED:
            return Failure(status=503, code="draining", message="this server is stopping")
        case Outcome.FAILED if finish.fault is Fault.INPUT:
            return Failure(status=400, code="bad-request", message=finish.message)
        case Outcome.FAILED:
            return Failure(status=500, code="failed", message=finish.message)


def bad_request(error: HeadtailError) -> Failure:
    """Of a request that is none."""
    return Failure(status=400, code="bad-request", message=error.message)


def of_the_engine(error: HeadtailError) -> Failure:
    """Of a good request."""
    return Failure(status=500, code="failed", message=error.message)


def no_such_model(name: str, version: str | None) -> Failure:
    """Of a name that came from outside."""
    shown = name[:80] if version is None else f"{name[:80]} in version {version[:20]}"
    return Failure(status=404, code="no-such-model", message=f"no model {shown!r}")


def cold_start(retry_after_s: float) -> Failure:
    """While models are being loaded."""
    return Failure(
        status=503,
        code="cold-start",
        message="models are being loaded",
        retry_after_s=retry_after_s,
    )
