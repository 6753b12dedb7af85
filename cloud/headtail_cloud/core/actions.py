"""What a scheduler wants done."""

from dataclasses import dataclass
from enum import StrEnum

from headtail_cloud.core.task import Fault, Task


class Reason(StrEnum):
    """Why a request was not accepted."""

    QUEUE_FULL = "queue-full"
    TENANT_LIMIT = "tenant-limit"
    TOO_LATE = "too-late"
    """It would not be done in time."""
    TOO_LARGE = "too-large"
    """It never fits this engine."""
    DRAINING = "draining"
    COLD_START = "cold-start"
    """Its engine is being started, and that takes longer than the request has."""


class Outcome(StrEnum):
    """How an accepted request ended, each in exactly one way."""

    DONE = "done"
    EXITED = "exited"
    """Its exit policy was content before the end."""
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    FAILED = "failed"


class Kind(StrEnum):
    """What a request asked for."""

    TAIL = "tail"
    TEXT = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Tasks to compute together. `budget_s`: how long they may take; `estimate_s` may be longer
    only where there is a single task."""

    id: int
    tasks: tuple[Task, ...]
    estimate_s: float
    budget_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StartStep:
    step: Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Accept:
    """`variant` 0 is what was asked for, others are its fallbacks. `predicted_s`: from now to the
    answer, or to the first token."""

    request_id: str
    variant: int
    predicted_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reject:
    """Without `retry_after_s` it makes no sense to come again."""

    request_id: str
    reason: Reason
    retry_after_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EmitToken:
    """`after_s`: since the token before; None for the first. `output`: what the engine says of
    it."""

    request_id: str
    token: int
    after_s: float | None
    output: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """When a request arrived, was first computed, and ended; `first_token_at` of texts."""

    arrived_at: float
    started_at: float | None
    first_token_at: float | None
    ended_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """`on_time`: it has an answer, and every time that was promised was kept. `output`: a tail's
    answer. `ran`: segments that a tail went through, tokens of a text.
    `message` and `fault`: of a failure. One that was computed in its last moment is done, though
    later than its deadline."""

    request_id: str
    kind: Kind
    outcome: Outcome
    timeline: Timeline
    on_time: bool
    output: object = None
    ran: int = 0
    message: str = ""
    fault: Fault | None = None


Action = StartStep | Accept | Reject | EmitToken | Finish
