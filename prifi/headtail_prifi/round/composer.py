"""The upstream frame of a client: pads, locked lanes, and what its slot has to say.

From the call to the returned bytes an owner does exactly what a cover client does (the same calls
in the same order on the same sizes; `tests/prifi/test_p4_shape.py` traces them).
"""

import numpy as np
from numpy.typing import NDArray

from headtail_prifi.core.geometry import LANE_BYTES, Geometry
from headtail_prifi.core.header import Header
from headtail_prifi.core.messages import NOBODY
from headtail_prifi.round.cell import Cell
from headtail_prifi.round.lock import Lock
from headtail_prifi.round.outbound import Outbound, Said

Bytes = NDArray[np.uint8]


class Composer:
    """Writes frames for one slot, each over its round's pads."""

    def __init__(self, *, geometry: Geometry, slot: int, outbound: Outbound) -> None:
        self._slot = slot
        self._outbound = outbound
        self._cell_bytes = geometry.cell_bytes
        self._payload_bytes = geometry.payload_bytes
        self._reservation_at = geometry.reservation_start - geometry.payload_bytes + (slot >> 3)
        self._reservations = (0, 0x80 >> (slot & 7))
        self._lanes = bytearray(geometry.lane_bytes)
        lanes = np.frombuffer(self._lanes, np.uint8).reshape(-1, LANE_BYTES)
        self._keys = [lanes[sub_slot] for sub_slot in range(geometry.sub_slots)]

    def compose(
        self, header: Header, row: Bytes, lock: Lock, owners: tuple[int, ...], permit: int
    ) -> tuple[bytes, int]:
        """The frame (without voucher), and the reservation bit in it.

        `row` is the round's combined stream, which is used up; with `permit` 0 no reservation is
        made.
        """
        payloads = self._cover(row, lock)
        owned = 0
        for sub_slot, owner in enumerate(owners):
            if owner == NOBODY:
                continue
            mine = owner == self._slot
            self._add_cell(payloads, sub_slot, self._outbound.take(mine, sub_slot))
            owned += mine
        bit = permit & (self._outbound.stock > owned)
        self._lanes[self._reservation_at] ^= self._reservations[bit]
        return b"".join((header.encode(), payloads.data, self._lanes)), bit

    def again(self, row: Bytes, lock: Lock, said: Said) -> bytes:
        """The cipher of an earlier round, from its stream (used up) and what was said in it."""
        payloads = self._cover(row, lock)
        for sent in said.cells:
            self._add_cell(payloads, sent.sub_slot, sent.card.cell)
        self._lanes[self._reservation_at] ^= self._reservations[said.reserved]
        return b"".join((payloads.data, self._lanes))

    def _cover(self, row: Bytes, lock: Lock) -> Bytes:
        """Fill the lanes and give the payloads of a client that has nothing to say."""
        payload_bytes = self._payload_bytes
        self._lanes[:] = lock.mask(row[payload_bytes:].tobytes())
        return row[:payload_bytes]

    def _add_cell(self, payloads: Bytes, sub_slot: int, own: Cell) -> None:
        start = sub_slot * self._cell_bytes
        payload, key = payloads[start : start + self._cell_bytes], self._keys[sub_slot]
        payload ^= own.payload
        key ^= own.key
