"""What the three set-up cores share: outbox, events, work to be done, and the deadline.

A core is sans-IO: `receive(frame, now)`, `to_send(now)`, `next_event()`, `next_timer()` and
`on_timer(now)`. Work that takes milliseconds (making and verifying proofs) is not done while a
frame is received but by `on_timer`, one piece a call and the most urgent first, so that frames
that others wait for leave before it; `next_timer` is in the past while there is some.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from typing import Generic, NamedTuple, TypeVar

from headtail_prifi.core.seat import Seat
from headtail_prifi.setup.epoch import ClientSecrets, Epoch, GuardSecrets
from headtail_prifi.setup.errors import (
    AttemptFailedError,
    KeyRefusedError,
    ShuffleRefusedError,
    SilentPartyError,
    UnexpectedMessageError,
)
from headtail_prifi.setup.messages import Reason

S = TypeVar("S", bound=Hashable)
Table = Mapping[S, Mapping[Hashable, S]]


class Outgoing(NamedTuple):
    """A frame and where it goes; index `ALL` of a role stands for all of the epoch."""

    to: Seat
    frame: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """The epoch is complete. `secrets` is None for the relay."""

    epoch: Epoch
    secrets: ClientSecrets | GuardSecrets | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The attempt is over. `culprits` are whom this party holds responsible, if it knows."""

    error: AttemptFailedError
    culprits: tuple[Seat, ...]


Event = Ready | Failed


class SetupCore(Generic[S]):
    """One attempt of one party. `state` moves only along the role's table, or to `failed`."""

    def __init__(self, *, table: Table[S], start: S, failed: S) -> None:
        self._table = table
        self._failed_state = failed
        self.state = start
        self._outbox: deque[Outgoing] = deque()
        self._events: deque[Event] = deque()
        self._work: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()
        self._deadline_at: float | None = None
        self._now = 0.0

    def to_send(self, now: float) -> Iterator[Outgoing]:
        """What must leave now, in order."""
        while self._outbox:
            yield self._outbox.popleft()

    def next_event(self) -> Event | None:
        """`Ready` or `Failed`, once."""
        return self._events.popleft() if self._events else None

    def next_timer(self) -> float | None:
        """When `on_timer` wants to be called; at once while there is work."""
        return self._now if self._work else self._deadline_at

    def on_timer(self, now: float) -> None:
        """Does one piece of work, or gives up after the deadline."""
        self._now = now
        if self._work:
            _, _, task = heappop(self._work)
            self._guarded(task)
        elif self._deadline_at is not None and now >= self._deadline_at:
            self._on_deadline()

    @property
    def failed(self) -> bool:
        """The attempt is over without an epoch."""
        return self.state == self._failed_state

    # -- for the roles ------------------------------------------------------------------------

    def _enter(self, event: Hashable) -> None:
        try:
            self.state = self._table[self.state][event]
        except KeyError:
            name = event.__name__ if isinstance(event, type) else event
            raise UnexpectedMessageError(f"{name} while {self.state}") from None

    def _later(self, urgency: int, task: Callable[[], None]) -> None:
        heappush(self._work, (urgency, next(self._order), task))

    def _guarded(self, task: Callable[[], None]) -> None:
        """Runs a step; `AttemptFailedError` in it is the end of the attempt."""
        try:
            task()
        except AttemptFailedError as error:
            self._give_up(error, culprits_of(error))

    def _give_up(self, error: AttemptFailedError, culprits: tuple[Seat, ...]) -> None:
        """Ends the attempt; a role also tells the others."""
        self._end(error, culprits)

    def _end(self, error: AttemptFailedError, culprits: tuple[Seat, ...]) -> None:
        self.state = self._failed_state
        self._work.clear()
        self._deadline_at = None
        self._events.append(Failed(error=error, culprits=culprits))

    def _on_deadline(self) -> None:
        raise NotImplementedError

    def _send(self, to: Seat, frame: bytes) -> None:
        self._outbox.append(Outgoing(to, frame))


def culprits_of(error: AttemptFailedError) -> tuple[Seat, ...]:
    """The party whose message the error is about, if it is about one."""
    author = error.facts.get("author")
    return (author,) if isinstance(author, Seat) else ()


def reason_for(error: AttemptFailedError) -> Reason:
    """What an `Abort` says of the error."""
    if isinstance(error, KeyRefusedError):
        return Reason.KEYS
    if isinstance(error, ShuffleRefusedError):
        return Reason.SHUFFLE
    if isinstance(error, SilentPartyError):
        return Reason.SILENCE
    return Reason.OUTCOME
