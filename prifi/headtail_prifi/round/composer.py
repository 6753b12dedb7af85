"""The upstream frame of a client: pads, locked lanes, and what its slot has to say.

From the call to the returned bytes an owner does exactly what a cover client does (the same calls
in the same order on the same sizes; `tests/prifi/test_p4_shape.py` traces them).
"""

import numpy as np
from numpy.typing import NDArray

from headtail_prifi.core.geometry import LANE_BYTES, Geometry
from headtail_prifi.core.header import HEADER_BYTES, Header
from headtail_prifi.core.messages import NOBODY
from headtail_prifi.round.cell import Cell
from headtail_prifi.round.lock import Lock
from headtail_prifi.round.outbound import Outbound, Said

Bytes = NDArray[np.uint8]


class Composer:
    """Writes frames for one slot, all of them in one buffer."""

    def __init__(self, *, geometry: Geometry, slot: int, outbound: Outbound) -> None:
        self._slot = slot
        self._outbound = outbound
        self._payload_bytes = geometry.payload_bytes
        self._lanes_at = HEADER_BYTES + geometry.payload_bytes
        self._reservation_at = HEADER_BYTES + geometry.reservation_start + (slot >> 3)
        self._reservations = (0, 0x80 >> (slot & 7))
        self._frame = bytearray(HEADER_BYTES + geometry.upstream_bytes)
        cipher = np.frombuffer(self._frame, np.uint8)[HEADER_BYTES:]
        self._payloads = cipher[: geometry.payload_bytes]
        self._parts = [
            (
                cipher[sub_slot * geometry.cell_bytes :][: geometry.cell_bytes],
                cipher[geometry.key_lane_start(sub_slot) :][:LANE_BYTES],
            )
            for sub_slot in range(geometry.sub_slots)
        ]
        """Where in the buffer the payload and the key of each sub-slot lie."""

    def compose(
        self, header: Header, row: Bytes, lock: Lock, owners: tuple[int, ...], permit: int
    ) -> tuple[bytes, int]:
        """The frame (without voucher), and the reservation bit in it.

        `row` is the round's combined stream; with `permit` 0 no reservation is made.
        """
        self._cover(row, lock)
        owned = 0
        for sub_slot, owner in enumerate(owners):
            if owner == NOBODY:
                continue
            mine = owner == self._slot
            self._add_cell(sub_slot, self._outbound.take(mine, sub_slot))
            owned += mine
        bit = permit & (self._outbound.stock > owned)
        self._frame[self._reservation_at] ^= self._reservations[bit]
        self._frame[:HEADER_BYTES] = header.encode()
        return bytes(self._frame), bit

    def again(self, row: Bytes, lock: Lock, said: Said) -> bytes:
        """The cipher of an earlier round, from its stream and what was said in it."""
        self._cover(row, lock)
        for sent in said.cells:
            self._add_cell(sent.sub_slot, sent.card.cell)
        self._frame[self._reservation_at] ^= self._reservations[said.reserved]
        return bytes(self._frame[HEADER_BYTES:])

    def _cover(self, row: Bytes, lock: Lock) -> None:
        """What a client sends that has nothing to say."""
        self._payloads[:] = row[: self._payload_bytes]
        self._frame[self._lanes_at :] = lock.mask(row[self._payload_bytes :].tobytes())

    def _add_cell(self, sub_slot: int, own: Cell) -> None:
        payload, key = self._parts[sub_slot]
        payload ^= own.payload
        key ^= own.key
