"""What an engine does within one iteration, and what comes of it."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from headtail_cloud.core.exit_policy import Evidence
from headtail_cloud.core.request import Segment
from headtail_cloud.core.work import Work, chunk_work


@dataclass(frozen=True, slots=True, kw_only=True)
class TailItem:
    """One request's part of a segment's batch. `input` is the request's own, or what the segment
    before left (`TailOutput.carry`)."""

    request_id: str
    segment: Segment
    input: object

    @property
    def work(self) -> Work:
        return Work(items={self.segment: 1})


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillChunk:
    """The key-value entries of `tokens`, from position `start` on, into the sequence's `blocks`.
    The `last` chunk also gives the next token. `input` is the request's own."""

    request_id: str
    model: str
    tokens: tuple[int, ...]
    start: int
    blocks: tuple[int, ...]
    last: bool
    input: object = None

    @property
    def work(self) -> Work:
        return chunk_work(self.start, len(self.tokens), last=self.last)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeStep:
    """One more token: `token` goes to position `position`, the next one comes back. `input` is the
    request's own."""

    request_id: str
    model: str
    token: int
    position: int
    blocks: tuple[int, ...]
    input: object = None

    @property
    def work(self) -> Work:
        return Work(decodes=1, context_tokens=self.position)


Task = TailItem | PrefillChunk | DecodeStep


def work_of(tasks: Iterable[Task]) -> Work:
    """All of it together."""
    total = Work()
    for task in tasks:
        total = total.plus(task.work)
    return total


@dataclass(frozen=True, slots=True, kw_only=True)
class TailOutput:
    """A segment's answer, and the tensor that the next segment begins with, if there is one."""

    request_id: str
    output: object
    carry: object = None
    evidence: Evidence | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TextOutput:
    """A token, or none from a chunk that was not the last. `output` goes to the caller with it,
    such as its probability."""

    request_id: str
    token: int | None = None
    output: object = None
    evidence: Evidence | None = None


class Fault(StrEnum):
    """Whose fault a failure is."""

    INPUT = "input"
    """The request's: its tensor can't be read."""
    ENGINE = "engine"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFailed:
    """This task could not be done, and trying again would not help."""

    request_id: str
    message: str
    fault: Fault = Fault.ENGINE


TaskResult = TailOutput | TextOutput | TaskFailed
