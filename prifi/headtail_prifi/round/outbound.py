"""What a client still has to say: waiting, sealed in advance, under way, confirmed.

Whether a client owns a sub-slot must not show in what it does between a downstream frame and its
answer. So cells are sealed beforehand, and `take` does the same for an owner and for cover: it
pops from one of two decks, of which one holds nothing but silence. All that differs is done in
`settle`, after the answer has left.
"""

from collections import deque
from typing import Final

import msgspec

from headtail_prifi.core.errors import BacklogFullError
from headtail_prifi.core.geometry import Geometry
from headtail_prifi.core.messages import ECHO_BYTES, Report
from headtail_prifi.crypto.cipher import PadCipher
from headtail_prifi.crypto.entropy import Entropy
from headtail_prifi.round.cell import KEY_BYTES, Cell, CellKind, seal_cell, silence


class Item(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The body of one cell; its id is the client's own."""

    id: int
    kind: CellKind
    body: bytes


class Card(msgspec.Struct, frozen=True, eq=False):
    """A cell in a deck; `owned` cells get an echo, `item` is None for silence."""

    owned: bool
    item: Item | None
    cell: Cell


class Sent(msgspec.Struct, frozen=True, eq=False):
    """An owned cell under way in a sub-slot, or an owned silence."""

    sub_slot: int
    card: Card


class Spoilt(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """An owned cell that the relay did not get as it was sent."""

    round: int
    sub_slot: int
    cell: Cell


class Said(msgspec.Struct, frozen=True, eq=False):
    """What a client added to its pads in a round: its cells, and its reservation bit."""

    cells: tuple[Sent, ...]
    reserved: int


NOTHING_SAID: Final = Said((), 0)


class Outbound:
    """The queue of one pseudonym, and its memory of the last `retain` rounds.

    Raises BacklogFullError beyond `max_waiting` cells.
    """

    def __init__(
        self,
        *,
        geometry: Geometry,
        cipher: PadCipher,
        entropy: Entropy,
        max_waiting: int,
        retain: int,
    ) -> None:
        self._geometry = geometry
        self._cipher = cipher
        self._entropy = entropy
        self._max_waiting = max_waiting
        self._silence = silence(geometry)
        self._waiting: deque[Item] = deque()
        self._owned: deque[Card] = deque()
        self._passes = [Card(True, None, self._silence)] * geometry.sub_slots
        self._cover = deque([Card(False, None, self._silence)] * geometry.sub_slots)
        self._decks = (self._cover, self._owned)
        self._taken: list[tuple[int, Card]] = []
        self._under_way: dict[int, list[Sent]] = {}
        self._retain = retain
        self._said: dict[int, Said] = {}
        self._next_id = 1
        self.stock = 0
        """Cells that wait or lie sealed; what `take` hands out counts until `settle`."""
        self._restock()

    def add(self, kind: CellKind, body: bytes) -> int:
        """Queue one cell; an accusation goes first. Returns the id of its `CellDelivered`."""
        if kind is CellKind.DATA and len(self._waiting) >= self._max_waiting:
            raise BacklogFullError(f"{self._max_waiting} cells wait already")
        item = Item(id=self._next_id, kind=kind, body=body)
        self._next_id += 1
        if kind is CellKind.ACCUSATION:
            self._shelve()
            self._waiting.appendleft(item)
        else:
            self._waiting.append(item)
        self._restock()
        return item.id

    @property
    def accusing(self) -> bool:
        """An accusation waits or is under way."""
        items = (
            *self._waiting,
            *(card.item for card in self._owned),
            *(sent.card.item for row in self._under_way.values() for sent in row),
        )
        return any(item is not None and item.kind is CellKind.ACCUSATION for item in items)

    def take(self, owned: bool, sub_slot: int) -> Cell:
        """The cell for a sub-slot: the next own one, or silence. Same work either way."""
        card = self._decks[owned].popleft()
        self._taken.append((sub_slot, card))
        return card.cell

    def said(self, round_: int) -> Said:
        """What was added to the pads in a round, as far as it is remembered."""
        return self._said.get(round_, NOTHING_SAID)

    def settle(self, round_: int, reserved: int = 0) -> None:
        """Note what was taken and reserved in `round_`, and seal what comes next."""
        sent = []
        for sub_slot, card in self._taken:
            if card.owned:
                sent.append(Sent(sub_slot, card))
            else:
                self._cover.append(card)
        self._taken.clear()
        if sent or reserved:
            self._remember(round_, Said(tuple(sent), reserved))
        if sent:
            self._under_way[round_] = sent
            self._restock()

    def confirm(self, report: Report) -> tuple[list[int], list[Spoilt]]:
        """Ids of the data cells that arrived in the reported round, and the cells that did not.

        The latter are queued again, in front.
        """
        arrived: list[int] = []
        spoilt: list[Spoilt] = []
        under_way = self._under_way.pop(report.round, None)
        if under_way is None:
            return arrived, spoilt
        again: list[Item] = []
        for sent in under_way:
            start = sent.sub_slot * ECHO_BYTES
            item = sent.card.item
            if report.echoes[start : start + ECHO_BYTES] == sent.card.cell.echo:
                if item is not None and item.kind is CellKind.DATA:
                    arrived.append(item.id)
                continue
            spoilt.append(Spoilt(round=report.round, sub_slot=sent.sub_slot, cell=sent.card.cell))
            if item is not None:
                again.append(item)
        self._requeue(again)
        return arrived, spoilt

    def abandon(self, before: int) -> None:
        """Rounds below `before` will not be reported any more: queue their cells again."""
        lost = sorted(round_ for round_ in self._under_way if round_ < before)
        self._requeue(
            [
                sent.card.item
                for round_ in lost
                for sent in self._under_way.pop(round_)
                if sent.card.item is not None
            ]
        )

    def drain(self) -> list[Item]:
        """Everything that was not confirmed, oldest first; the queue is empty afterwards."""
        self.abandon(2**32)
        self._shelve()
        items = [item for item in self._waiting if item.kind is CellKind.DATA]
        items.sort(key=lambda item: item.id)
        self._waiting.clear()
        self._restock()
        return items

    def _remember(self, round_: int, said: Said) -> None:
        self._said[round_] = said
        while (oldest := next(iter(self._said))) <= round_ - self._retain:
            del self._said[oldest]

    def adopt(self, items: list[Item]) -> None:
        """Queue items of another queue in front; ids given out from now on are higher."""
        self._requeue(items)
        self._next_id = max([self._next_id, *(item.id + 1 for item in items)])

    def _requeue(self, items: list[Item]) -> None:
        if items:
            self._shelve()
            self._waiting.extendleft(reversed(items))
            self._restock()

    def _shelve(self) -> None:
        """Take the sealed cells back to the front of the queue; their keys are never used."""
        items = [card.item for card in self._owned if card.item is not None]
        self._waiting.extendleft(reversed(items))
        self._owned.clear()

    def _restock(self) -> None:
        depth = self._geometry.sub_slots
        sealed = [card for card in self._owned if card.item is not None]
        while self._waiting and len(sealed) < depth:
            item = self._waiting.popleft()
            cell = seal_cell(
                self._cipher,
                self._geometry,
                kind=item.kind,
                body=item.body,
                backlog=len(self._waiting),
                key=self._entropy.bytes(KEY_BYTES),
            )
            sealed.append(Card(True, item, cell))
        self.stock = len(sealed) + len(self._waiting)
        self._owned.clear()
        self._owned.extend(sealed)
        self._owned.extend(self._passes)
