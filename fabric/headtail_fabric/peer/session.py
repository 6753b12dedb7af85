"""A server's memory of one client: where it is, what it asked, what it was answered."""

from collections import OrderedDict
from enum import Enum
from math import inf
from typing import Final

import msgspec

from headtail_fabric.seal import AnswerSealer
from headtail_fabric.wire import Buffer

_KEPT_REPLY_BYTES: Final = 8 * 1024 * 1024


class Seen(Enum):
    """What a request id stands for."""

    NEW = "new"
    IN_PROGRESS = "in progress"
    ANSWERED = "answered"
    FORGOTTEN = "forgotten"


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """A request that is being worked on; `answers` seals its answer, if it came sealed."""

    arrived_at: float
    deadline_at: float
    answers: AnswerSealer | None


class Session:
    """One session; `route` is the transport's address of its present connection.

    Repeated requests are told from new ones by id: the last replies are kept (`kept` of them, at
    most 8 MiB) and sent again; an id at or below the highest forgotten one is old, whatever it is,
    unless it was refused for now: that may come back late.
    """

    def __init__(
        self, *, id: bytes, user: str, name: str, route: bytes, kept: int, now: float
    ) -> None:
        self.id = id
        self.user = user
        self.name = name
        self.route = route
        self.heard_at = now
        self._kept = kept
        self._in_progress: dict[int, Progress] = {}
        self._replies: OrderedDict[int, list[Buffer]] = OrderedDict()
        self._refused: OrderedDict[int, None] = OrderedDict()
        self._reply_bytes = 0
        self._floor = 0

    def __repr__(self) -> str:
        who = self.user or self.name
        return f"Session({who!r}, in_progress={len(self._in_progress)}, kept={len(self._replies)})"

    @property
    def in_progress(self) -> int:
        """Requests accepted and not yet answered."""
        return len(self._in_progress)

    def seen(self, request_id: int) -> Seen:
        if request_id in self._in_progress:
            return Seen.IN_PROGRESS
        if request_id in self._replies:
            return Seen.ANSWERED
        if request_id in self._refused:
            return Seen.NEW
        return Seen.FORGOTTEN if request_id <= self._floor else Seen.NEW

    def begin(self, request_id: int, progress: Progress) -> None:
        """A new request is being worked on."""
        self._in_progress[request_id] = progress
        self._refused.pop(request_id, None)

    def finish(self, request_id: int) -> Progress | None:
        """It is not any more; None when it was not in progress."""
        return self._in_progress.pop(request_id, None)

    def refuse(self, request_id: int) -> bool:
        """It may come again, and is new then; False when it was not in progress."""
        if self._in_progress.pop(request_id, None) is None:
            return False
        self._refused[request_id] = None
        if len(self._refused) > self._kept:
            self._refused.popitem(last=False)
        return True

    def keep(self, request_id: int, frames: list[Buffer]) -> None:
        """Remember the reply, and forget the oldest ones over the limits."""
        self._replies[request_id] = frames
        self._reply_bytes += _size(frames)
        while len(self._replies) > self._kept or self._reply_bytes > _KEPT_REPLY_BYTES:
            oldest, forgotten = self._replies.popitem(last=False)
            self._reply_bytes -= _size(forgotten)
            self._floor = max(self._floor, oldest)

    def reply(self, request_id: int) -> list[Buffer]:
        """The kept reply of an answered request."""
        return self._replies[request_id]

    def expired(self, now: float) -> list[int]:
        """Requests in progress whose deadline has passed."""
        return [i for i, one in self._in_progress.items() if now >= one.deadline_at]

    def next_deadline(self) -> float:
        """The first of the requests in progress; infinity when there are none."""
        return min((one.deadline_at for one in self._in_progress.values()), default=inf)


def _size(frames: list[Buffer]) -> int:
    size = 0
    for frame in frames:
        size += frame.nbytes if isinstance(frame, memoryview) else len(frame)
    return size
