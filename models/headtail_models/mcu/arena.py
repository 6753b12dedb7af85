"""Where in one block of memory each tensor lies while it is needed.

Greedy by size, as TensorFlow Lite Micro's planner and Pisarchyk and Lee ("Efficient Memory
Management for Deep Neural Net Inference", 2020) have it: the largest first, each at the lowest
place that no tensor alive at the same time occupies.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

ALIGNMENT: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetime:
    """A tensor of `size` bytes, needed from step `first` to step `last`, both included."""

    name: str
    size: int
    first: int
    last: int

    def meets(self, other: "Lifetime") -> bool:
        """Whether there is a step at which both are needed."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True, slots=True, kw_only=True)
class ArenaPlan:
    """Offset of each tensor by name, and the bytes that they take together."""

    offsets: dict[str, int]
    size: int


def plan_arena(lifetimes: Sequence[Lifetime]) -> ArenaPlan:
    """Offsets are multiples of 4."""
    placed: list[tuple[int, Lifetime]] = []
    for lifetime in sorted(lifetimes, key=lambda t: (-t.size, t.first, t.name)):
        placed.append((_lowest_gap(lifetime, placed), lifetime))
    return ArenaPlan(
        offsets={lifetime.name: offset for offset, lifetime in placed},
        size=max((offset + _aligned(t.size) for offset, t in placed), default=0),
    )


def _lowest_gap(lifetime: Lifetime, placed: Sequence[tuple[int, Lifetime]]) -> int:
    offset = 0
    for start, other in sorted(placed, key=lambda p: p[0]):
        if not other.meets(lifetime):
            continue
        if start >= offset + lifetime.size:
            break
        offset = max(offset, start + _aligned(other.size))
    return offset


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
