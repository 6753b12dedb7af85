"""Integer frequency tables: what the coder knows of the symbols, the same on every machine.

A table gives each symbol of an alphabet a frequency of at least 1; they sum to 4096. Nothing but
these integers decides how a symbol is coded, so no rounding of one machine's floating point can
set two ends apart.
"""

from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

PRECISION: Final = 12
TOTAL: Final = 1 << PRECISION
STATE_BITS: Final = 14
"""A coder's state lies in [2^14, 2^15)."""
STATE_AT: Final = 16
SYMBOL_AT: Final = 40
MOVED_AT: Final = 48
INVERSE_BITS: Final = 27
MAX_TABLES: Final = 256
MAX_SYMBOLS: Final = 64
"""Of an alphabet: at 64 the least frequencies of 1 take 1.6 % of the total."""


class FrequencyTables:
    """`frequencies` uint16 (tables, symbols): each row positive, its sum 4096.

    Raises ValueError for anything else.
    """

    def __init__(self, frequencies: NDArray[np.uint16]) -> None:
        table = np.ascontiguousarray(frequencies, dtype=np.uint16)
        if table.ndim != 2 or not (
            1 <= table.shape[0] <= MAX_TABLES and 2 <= table.shape[1] <= MAX_SYMBOLS
        ):
            raise ValueError(f"frequency tables of shape {table.shape}")
        if int(table.min()) < 1 or not (table.sum(axis=1, dtype=np.int64) == TOTAL).all():
            raise ValueError(f"frequencies must be positive and sum to {TOTAL} in each table")
        table.setflags(write=False)
        self.frequencies = table

    @property
    def count(self) -> int:
        return int(self.frequencies.shape[0])

    @property
    def symbols(self) -> int:
        return int(self.frequencies.shape[1])

    @cached_property
    def starts(self) -> NDArray[np.uint16]:
        """Sum of the frequencies of the symbols before, (tables, symbols)."""
        sums = np.cumsum(self.frequencies, axis=1, dtype=np.int64) - self.frequencies
        return sums.astype(np.uint16)

    @cached_property
    def owners(self) -> NDArray[np.uint8]:
        """Whose slot each of the 4096 is, (tables, 4096)."""
        symbols = np.arange(self.symbols, dtype=np.uint8)
        return np.stack([np.repeat(symbols, row) for row in self.frequencies])

    @cached_property
    def steps(self) -> NDArray[np.int32]:
        """What an encoder needs of each symbol of each table, (4, tables x symbols): for a
        frequency f and a state x in [2^14, 2^15)

        - delta: the bits (x + delta) >> 15 must go, so that what is left lies in [4 f, 8 f);
        - inverse: (2^27 + e) / f with 0 <= e < f, so that (y inverse) >> 27 is floor(y / f) for
          y < 8 f: the excess, y e / 2^27 f, stays below 1 / f since 8 f^2 <= 2^27. The product
          has 31 bits;
        - complement: 4096 - f;
        - the sum of the frequencies before.
        """
        frequencies = self.frequencies.reshape(-1).astype(np.int64)
        # `most` bits go, or one fewer below the least state that bears `most`.
        most = PRECISION + 1 - np.frexp(frequencies)[1].astype(np.int64)
        least = frequencies << STATE_BITS - PRECISION + most
        return np.stack(
            [
                (most << STATE_BITS + 1) - least,
                -(-(1 << INVERSE_BITS) // frequencies),
                TOTAL - frequencies,
                self.starts.reshape(-1).astype(np.int64),
            ]
        ).astype(np.int32)

    @cached_property
    def transitions(self) -> NDArray[np.int64]:
        """What a decoder does in each state of each table, flat: the first table begins at 0 for
        state 2^14, and all are 2^14 apart.

        Bits 0-15 zero, 16-30 the state before bits are put back, 40-45 the symbol, 48-51 how many
        bits are put back.
        """
        parts = np.arange(1 << STATE_BITS >> PRECISION, 2 << STATE_BITS >> PRECISION)
        result = np.empty((self.count, parts.size, TOTAL), dtype=np.int64)
        for table, (row, frequencies) in enumerate(
            zip(result, self.frequencies.astype(np.int64), strict=True)
        ):
            owners = self.owners[table].astype(np.int64)
            behind = np.arange(TOTAL) - (np.cumsum(frequencies) - frequencies)[owners]
            states = frequencies[owners] * parts[:, np.newaxis] + behind
            moved = STATE_BITS + 1 - np.frexp(states)[1].astype(np.int64)
            row[:] = states << STATE_AT | owners << SYMBOL_AT | moved << MOVED_AT
        return result.reshape(-1)


def from_counts(counts: NDArray[np.float64]) -> FrequencyTables:
    """The tables nearest to `counts` (tables, symbols), which may hold zeros.

    Each symbol gets 1, the rest is shared out by count, the largest remainders rounded up. A row
    of zeros becomes uniform.
    """
    weights = np.asarray(counts, dtype=np.float64)
    sums = weights.sum(axis=1, keepdims=True)
    symbols = weights.shape[1]
    shares = np.divide(weights, sums, out=np.full_like(weights, 1 / symbols), where=sums > 0)
    # A symbol's own 1 is part of its share where the share is larger than that.
    wanted = np.maximum(shares * TOTAL - 1, 0)
    wanted *= (TOTAL - symbols) / np.maximum(wanted.sum(axis=1, keepdims=True), 1e-12)
    result = np.floor(wanted)
    missing = (TOTAL - symbols - result.sum(axis=1)).astype(np.int64)
    order = np.argsort(result - wanted, axis=1, kind="stable")
    ranks = np.argsort(order, axis=1, kind="stable")
    result += ranks < missing[:, np.newaxis]
    result[:, 0] += TOTAL - symbols - result.sum(axis=1)  # a row with nothing wanted
    return FrequencyTables((result + 1).astype(np.uint16))
