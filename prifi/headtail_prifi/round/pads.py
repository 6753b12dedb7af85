"""Pads: the keystreams that each client shares with each guard, seekable by round.

A pair's AES-256-CTR stream gives every round `Geometry.stride_blocks` blocks, so the counter of a
round is a product and any round can be had at any time, in any order, for blame too. Both a client
(over its guards) and a guard (over its clients) want the XOR of several streams for many rounds at
once: each stream is encrypted in place over one buffer, and no single pad is ever stored.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headtail_prifi.core.geometry import Geometry
from headtail_prifi.crypto.cipher import BLOCK_BYTES, PadStream

Bytes = NDArray[np.uint8]

BATCH_BYTES: Final = 64 * 1024
BANK_BYTES: Final = 16 * 1024
MAX_BATCH_ROUNDS: Final = 64


def batch_rounds(geometry: Geometry, batch_bytes: int = BATCH_BYTES) -> int:
    """How many rounds to generate at once: a guard about 64 KiB, where a cipher call costs nothing;
    a client less, so that its pads stay in the processor's cache until they are used."""
    stride = geometry.stride_blocks * BLOCK_BYTES
    return max(1, min(MAX_BATCH_ROUNDS, batch_bytes // stride))


def combined(
    streams: Sequence[PadStream], geometry: Geometry, first_round: int, count: int
) -> Bytes:
    """The XOR of all streams for `count` rounds: an array (count, stream_bytes)."""
    stride = geometry.stride_blocks * BLOCK_BYTES
    buffer = bytearray(count * stride)
    for stream in streams:
        stream.xor_into(buffer, first_round * geometry.stride_blocks)
    rows: Bytes = np.frombuffer(buffer, np.uint8).reshape(count, stride)
    return rows[:, : geometry.stream_bytes]


def single(stream: PadStream, geometry: Geometry, round_: int) -> bytes:
    """One pair's `stream_bytes` of one round; for blame."""
    return stream.keystream(round_ * geometry.stride_blocks, geometry.stream_bytes)


class PadBank:
    """A client's combined streams, generated some rounds ahead; each round is taken once."""

    def __init__(self, streams: Sequence[PadStream], geometry: Geometry, first_round: int) -> None:
        self._streams = streams
        self._geometry = geometry
        self._count = batch_rounds(geometry, BANK_BYTES)
        self._first = first_round
        self._rows = combined(streams, geometry, first_round, self._count)
        self._next_rows: Bytes | None = None

    def take(self, round_: int) -> Bytes:
        """The combined stream of a round: `stream_bytes`. Rounds must not go back by a batch."""
        offset = round_ - self._first
        if offset >= self._count:
            self._turn(round_)
            offset = round_ - self._first
        row: Bytes = self._rows[offset]
        return row

    def prepare(self, round_: int) -> None:
        """Generate the batch after `round_`'s, when it is due, away from the critical path."""
        if self._next_rows is None and round_ - self._first >= self._count // 2:
            self._next_rows = combined(
                self._streams, self._geometry, self._first + self._count, self._count
            )

    def _turn(self, round_: int) -> None:
        if self._next_rows is not None and round_ < self._first + 2 * self._count:
            self._first += self._count
            self._rows, self._next_rows = self._next_rows, None
            return
        self._first = round_
        self._rows = combined(self._streams, self._geometry, round_, self._count)
        self._next_rows = None
