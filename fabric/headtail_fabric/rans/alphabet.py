"""The levels that a tensor may hold, and how they become the symbols of a frequency table."""

from dataclasses import dataclass
from typing import Final

from headtail_fabric.rans.frequencies import MAX_SYMBOLS

MAX_BITS: Final = 8
MAX_LOW: Final = 2**15 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Alphabet:
    """Levels `low` .. `low + count - 1`, at most 256.

    Above 64 levels the lowest bits of a level are sent as they are: they hardly carry structure,
    and tables of 64 symbols waste less than longer ones. Raises ValueError.
    """

    low: int
    count: int

    def __post_init__(self) -> None:
        if not 2 <= self.count <= 1 << MAX_BITS or abs(self.low) > MAX_LOW:
            raise ValueError(f"{self.count} levels from {self.low}")

    @property
    def bits(self) -> int:
        """Of a level, without any coding."""
        return (self.count - 1).bit_length()

    @property
    def plain_bits(self) -> int:
        """How many of them are sent as they are."""
        return max(0, self.bits - (MAX_SYMBOLS - 1).bit_length())

    @property
    def symbols(self) -> int:
        """Of the frequency tables."""
        return (self.count - 1 >> self.plain_bits) + 1
