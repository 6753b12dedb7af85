"""Which requests move where: a pure function of what is where.

    drain      an instance that is to go gives away all it has
    hand-off   a text that has said its first token leaves an instance that only prefills
    priority   a prompt that finds no room gets it from a text of a lower priority, which moves
    balance    the fullest instance gives its shortest text to the emptiest

The order is that of their urgency; each instance takes part in at most `AT_A_TIME` moves. Balance
pairs worst with best, and moves the shortest text, as Llumnix does: it is copied soonest.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

AT_A_TIME: Final = 2
_FULL_FROM: Final = 0.7
"""Share of the cache from which on an instance gives texts away."""
_LEAST_GAP: Final = 0.3
"""By how much fuller it must be than the one that takes."""


class Why(StrEnum):
    """What a move is for."""

    DRAIN = "drain"
    HAND_OFF = "hand-off"
    PRIORITY = "priority"
    BALANCE = "balance"


class Role(StrEnum):
    """What an instance does of texts."""

    ANY = "any"
    PREFILL = "prefill"
    DECODE = "decode"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextView:
    """`positions`: what there is to copy."""

    request_id: str
    positions: int
    priority: int
    decoding: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceView:
    """`texts`: those that run there and do not move yet; `waits_for_room`: the highest priority of
    prompts that found none. `free` and `total` blocks."""

    instance: str
    group: str
    draining: bool
    role: Role
    texts: tuple[TextView, ...]
    waits_for_room: int | None
    free: int
    total: int
    block_tokens: int
    places: int
    """Further texts that fit in its iterations."""
    moving: int = 0

    @property
    def load(self) -> float:
        """Share of the cache that is held."""
        return 1 - self.free / self.total if self.total else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    request_id: str
    source: str
    target: str
    why: Why


def moves(views: Sequence[InstanceView]) -> list[Move]:
    """What should move now. Between instances of one group only: they have the same engine."""
    chosen: list[Move] = []
    busy = Counter({view.instance: view.moving for view in views})
    gone: set[str] = set()
    for move in _wishes(views):
        if move.request_id in gone:
            continue
        if max(busy[move.source], busy[move.target]) < AT_A_TIME:
            chosen.append(move)
            gone.add(move.request_id)
            busy[move.source] += 1
            busy[move.target] += 1
    return chosen


def _wishes(views: Sequence[InstanceView]) -> Iterator[Move]:
    for view in views:
        if view.draining:
            yield from _each(view, view.texts, views, Why.DRAIN)
    for view in views:
        if view.role is Role.PREFILL and not view.draining:
            ready = [text for text in view.texts if text.decoding]
            yield from _each(view, ready, views, Why.HAND_OFF)
    for view in views:
        if view.waits_for_room is not None and not view.draining:
            lower = [text for text in view.texts if text.priority < view.waits_for_room]
            lowest = sorted(lower, key=lambda text: (text.priority, text.positions))
            yield from _each(view, lowest[:1], views, Why.PRIORITY)
    yield from _balance(views)


def _each(
    source: InstanceView, texts: Sequence[TextView], views: Sequence[InstanceView], why: Why
) -> Iterator[Move]:
    for text in sorted(texts, key=_length):
        target = _emptiest(source, text, views)
        if target is not None:
            yield Move(
                request_id=text.request_id,
                source=source.instance,
                target=target.instance,
                why=why,
            )


def _balance(views: Sequence[InstanceView]) -> Iterator[Move]:
    for source in sorted(views, key=lambda view: -view.load):
        if source.load < _FULL_FROM or source.draining or not source.texts:
            continue
        text = min(source.texts, key=_length)
        target = _emptiest(source, text, views)
        if target is not None and source.load - target.load >= _LEAST_GAP:
            yield Move(
                request_id=text.request_id,
                source=source.instance,
                target=target.instance,
                why=Why.BALANCE,
            )


def _emptiest(
    source: InstanceView, text: TextView, views: Sequence[InstanceView]
) -> InstanceView | None:
    """Where that text fits, with a block to grow into."""
    fitting = [
        view
        for view in views
        if view.instance != source.instance
        and view.group == source.group
        and not view.draining
        and not (view.role is Role.PREFILL and text.decoding)
        and view.places > 0
        and view.free > -(-text.positions // view.block_tokens)
    ]
    return min(fitting, key=lambda view: (view.load, view.instance), default=None)


def _length(text: TextView) -> tuple[int, str]:
    return text.positions, text.request_id
