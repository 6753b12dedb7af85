"""A server's memory of one client: where it is, what it asked, what it was answered."""

from collections import OrderedDict
from enum import Enum
from typing import Final

from headtail_fabric.wire import Buffer

_KEPT_REPLY_BYTES: Final = 8 * 1024 * 1024


class Seen(Enum):
    """What a request id stands for."""

    NEW = "new"
    IN_PROGRESS = "in progress"
    ANSWERED = "answered"
    FORGOTTEN = "forgotten"


class Session:
    """One session; `route` is the transport's address of its present connection.

    Repeated requests are told from new ones by id: the last replies are kept (`kept` of them, at
    most 8 MiB) and sent again; an id at or below the highest forgotten one is old, whatever it is.
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
        self._in_progress: dict[int, tuple[float, float]] = {}
        self._replies: OrderedDict[int, list[Buffer]] = OrderedDict()
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
        return Seen.FORGOTTEN if request_id <= self._floor else Seen.NEW

    def begin(self, request_id: int, *, arrived_at: float, deadline_at: float) -> None:
        """A new request is being worked on."""
        self._in_progress[request_id] = (arrived_at, deadline_at)

    def finish(self, request_id: int) -> float | None:
        """It is not any more; returns when it arrived, or None when it was not in progress."""
        times = self._in_progress.pop(request_id, None)
        return None if times is None else times[0]

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
        return [i for i, (_, deadline_at) in self._in_progress.items() if now >= deadline_at]

    def next_deadline(self) -> float | None:
        return min((deadline for _, deadline in self._in_progress.values()), default=None)


def _size(frames: list[Buffer]) -> int:
    size = 0
    for frame in frames:
        size += frame.nbytes if isinstance(frame, memoryview) else len(frame)
    return size
