"""Accusations as they reach the relay: which can be brought, which are refuted, what is jammed."""

from collections import Counter, deque
from enum import Enum, auto
from typing import Final

from headtail_prifi.blame.accusation import Accusation
from headtail_prifi.blame.claim import check_claim, read_claim
from headtail_prifi.blame.messages import Claim
from headtail_prifi.blame.position import place_of
from headtail_prifi.core.errors import RecordError, RefutedError
from headtail_prifi.core.geometry import Geometry
from headtail_prifi.round.books import Books
from headtail_prifi.setup.epoch import Epoch

MAX_QUEUED: Final = 64
JAMS_BEFORE_SHUFFLE: Final = 3
MAX_FRUITLESS_SHUFFLES: Final = 8


class Considered(Enum):
    """What became of an accusation."""

    QUEUED = auto()
    IGNORED = auto()
    REFUTED = auto()


class Intake:
    """Accusations that hold, in order; each is charged once."""

    def __init__(self, *, epoch: Epoch, geometry: Geometry, books: Books) -> None:
        self._epoch = epoch
        self._geometry = geometry
        self._books = books
        self._queue: deque[Claim] = deque()
        self._charged: set[Accusation] = set()

    def consider(self, accusation: Accusation) -> tuple[Considered, Claim | None]:
        """Queue an accusation that holds; one that is too old, or charged, is ignored.

        A refuted one comes back with the claim that shows it. Raises RecordError or
        AccusationError for one that can't be brought at all.
        """
        record = self._books.closed(accusation.round)
        if record is None or accusation in self._charged or len(self._queue) >= MAX_QUEUED:
            return Considered.IGNORED, None
        place = place_of(self._geometry, accusation.position)
        shown = None if place is None else self._books.shown(accusation.round, place.sub_slot)
        if shown is None:
            raise RecordError("nothing was shown that could be accused")
        claim = Claim(
            accusation=accusation,
            opened=record.down,
            opened_before=record.before,
            shown=shown.down,
            shown_before=shown.before,
        )
        try:
            check_claim(read_claim(claim, epoch=self._epoch, geometry=self._geometry), self._epoch)
        except RefutedError:
            return Considered.REFUTED, claim
        self._queue.append(claim)
        return Considered.QUEUED, None

    def next(self) -> Claim | None:
        """The next claim to charge; it counts as charged."""
        while self._queue:
            claim = self._queue.popleft()
            if claim.accusation not in self._charged:
                self._charged.add(claim.accusation)
                return claim
        return None

    def clear(self) -> None:
        """Drop what waits."""
        self._queue.clear()


class Jams:
    """Slots whose cells are spoilt one after the other, so that no accusation gets through."""

    def __init__(self) -> None:
        self._jams: Counter[int] = Counter()
        self._fruitless: Counter[int] = Counter()
        self._jammed: list[int] = []

    def clean(self, slot: int) -> None:
        """A cell of the slot came through."""
        self._jams.pop(slot, None)

    def jam(self, slot: int) -> bool:
        """A cell was spoilt; whether that makes it time for a shuffle."""
        self._jams[slot] += 1
        return self._jams[slot] >= JAMS_BEFORE_SHUFFLE

    def begin(self) -> None:
        """A shuffle begins, for the slots that are jammed now."""
        self._jammed = [slot for slot, count in self._jams.items() if count >= JAMS_BEFORE_SHUFFLE]
        self._jams.clear()

    def end(self, *, fruitful: bool) -> list[int]:
        """A shuffle ended; the slots that were jammed in too many without ever accusing."""
        if fruitful:
            self._fruitless.clear()
            return []
        self._fruitless.update(self._jammed)
        return [slot for slot in self._jammed if self._fruitless[slot] >= MAX_FRUITLESS_SHUFFLES]

    def clear(self) -> None:
        """A new membership: count anew."""
        self._jams.clear()
