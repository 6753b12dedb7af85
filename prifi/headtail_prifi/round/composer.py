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
    """Writes frames for one slot."""

    def __init__(self, *, geometry: Geometry, slot: int, outbound: Outbound) -> None:
        self._geometry = geometry
        self._slot = slot
        self._outbound = outbound
        self._reservations = (
            np.zeros(geometry.reservation_lanes * LANE_BYTES, np.uint8),
            np.zeros(geometry.reservation_lanes * LANE_BYTES, np.uint8),
        )
        self._reservations[1][slot >> 3] = 0x80 >> (slot & 7)

    def compose(
        self, header: Header, row: Bytes, lock: Lock, owners: tuple[int, ...], permit: int
    ) -> tuple[bytes, int]:
        """The frame (without voucher), and the reservation bit in it.

        `row` is the round's combined stream; with `permit` 0 no reservation is made.
        """
        geometry = self._geometry
        cell = self._cover(row, lock)
        owned = 0
        for sub_slot, owner in enumerate(owners):
            if owner == NOBODY:
                continue
            mine = owner == self._slot
            own = self._outbound.take(mine, sub_slot)
            self._add_cell(cell, sub_slot, own)
            owned += mine
        bit = permit & (self._outbound.stock > owned)
        _add(cell[geometry.reservation_start :], self._reservations[bit])
        return header.encode() + cell.tobytes(), bit

    def again(self, row: Bytes, lock: Lock, said: Said) -> bytes:
        """The cipher of an earlier round, from its stream and what was said in it."""
        cell = self._cover(row, lock)
        for sent in said.cells:
            self._add_cell(cell, sent.sub_slot, sent.card.cell)
        _add(cell[self._geometry.reservation_start :], self._reservations[said.reserved])
        return cell.tobytes()

    def _cover(self, row: Bytes, lock: Lock) -> Bytes:
        """What a client sends that has nothing to say."""
        payload_bytes = self._geometry.payload_bytes
        secrets = row[payload_bytes:].tobytes()
        return np.concatenate((row[:payload_bytes], lock.mask(secrets)))

    def _add_cell(self, cell: Bytes, sub_slot: int, own: Cell) -> None:
        start = sub_slot * self._geometry.cell_bytes
        _add(cell[start : start + self._geometry.cell_bytes], own.payload)
        start = self._geometry.key_lane_start(sub_slot)
        _add(cell[start : start + LANE_BYTES], own.key)


def _add(part: Bytes, summand: Bytes) -> None:
    np.bitwise_xor(part, summand, out=part)
