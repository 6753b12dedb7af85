"""What a gateway knows of one node: sequence, what waits, what it is still to be told."""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from headtail_edge.gateway import messages
from headtail_edge.gateway.messages import Hello, Record

_AHEAD: Final = 64
_ANSWERS_KEPT: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """An answer that a node may not have heard yet."""

    sequence: int
    status: messages.Status
    answer: int
    score: float


@dataclass(slots=True, kw_only=True)
class Session:
    """Records are settled in any order, and acknowledged up to the first that is not.

    `settled` maps those above `floor` to the record before them, so that records that the node has
    lost are not waited for.
    """

    hello: Hello
    floor: int
    heard_at: float
    settled: dict[int, int] = field(default_factory=dict)
    pending: dict[int, int] = field(default_factory=dict)
    answers: deque[Told] = field(default_factory=lambda: deque(maxlen=_ANSWERS_KEPT))
    silent_until: float = 0.0

    @property
    def listens(self) -> bool:
        """Whether the node has not said goodbye."""
        return self.silent_until == 0.0

    @classmethod
    def opened(cls, hello: Hello, now: float) -> "Session":
        """Of a node that was not known."""
        return cls(hello=hello, floor=hello.acked, heard_at=now)

    def resumed(self, hello: Hello) -> None:
        """The node says hello again: after a reset, a sleep, or a break of its link."""
        if hello.log != self.hello.log:
            self.floor = hello.acked
            self.settled.clear()
            self.pending.clear()
            self.answers.clear()
        # It may know more than this gateway does, which was restarted.
        self.floor = max(self.floor, hello.acked)
        self.hello = hello
        self._advance()

    def is_new(self, record: Record) -> bool:
        """Whether it is to be dealt with; else it came before, or lies too far ahead."""
        sequence = record.sequence
        if sequence <= self.floor or sequence in self.settled or sequence in self.pending:
            return False
        return len(self.settled) + len(self.pending) < _AHEAD

    def wait_for(self, record: Record) -> None:
        """It will be settled later."""
        self.pending[record.sequence] = record.previous

    def settle(self, sequence: int, previous: int) -> None:
        """The record has done what it came for."""
        self.pending.pop(sequence, None)
        self.settled[sequence] = previous
        self._advance()

    def keep(self, told: Told) -> bool:
        """An answer that the node may not hear now; whether an older one that it surely has not
        heard gave way."""
        full = len(self.answers) == self.answers.maxlen
        self.answers.append(told)
        return full and not self.listens

    def unheard(self) -> list[Told]:
        """Answers to records that the node, as it said at last, still holds."""
        return [told for told in self.answers if told.sequence > self.hello.acked]

    def _advance(self) -> None:
        for sequence in sorted(self.settled):
            if sequence <= self.floor:
                del self.settled[sequence]
            elif self.settled[sequence] <= self.floor:
                self.floor = sequence
                del self.settled[sequence]
            else:
                break
