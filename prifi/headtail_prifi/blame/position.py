"""A bit of an upstream frame: what it belongs to, and what a pair's keystream adds to it.

Every bit of an upstream frame is linear in the streams, lanes included (that is what the lock over
GF(2^128) buys), so blame treats a payload bit, a bit of a key and a reservation alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from headtail_prifi.core.geometry import LANE_BITS, LANE_BYTES, Geometry
from headtail_prifi.core.header import Buffer
from headtail_prifi.core.messages import NOBODY
from headtail_prifi.round.lock import Lock


@dataclass(frozen=True, slots=True)
class Place:
    """Where a position lies: `sub_slot` and the bit of its payload followed by its key, or, when
    that is None, the reservation bit of slot `bit`."""

    sub_slot: int | None
    bit: int


def place_of(geometry: Geometry, position: int) -> Place | None:
    """The place of a bit (most significant of byte 0 first); None beyond the frame's end."""
    payload_bits, cell_bits = 8 * geometry.payload_bytes, 8 * geometry.cell_bytes
    if position < payload_bits:
        return Place(position // cell_bits, position % cell_bits)
    lane, bit = divmod(position - payload_bits, LANE_BITS)
    if lane < geometry.sub_slots:
        return Place(lane, cell_bits + bit)
    slot = position - 8 * geometry.reservation_start
    return Place(None, slot) if slot < LANE_BITS * geometry.reservation_lanes else None


def position_of(geometry: Geometry, place: Place) -> int:
    """The inverse of `place_of`."""
    if place.sub_slot is None:
        return geometry.reservation_bit(place.bit)
    cell_bits = 8 * geometry.cell_bytes
    if place.bit < cell_bits:
        return place.sub_slot * cell_bits + place.bit
    return 8 * geometry.key_lane_start(place.sub_slot) + place.bit - cell_bits


def owner_of(place: Place, owners: Sequence[int]) -> int:
    """The slot that alone may set this bit in a round with these owners, or NOBODY."""
    if place.sub_slot is None:
        return place.bit
    return owners[place.sub_slot] if place.sub_slot < len(owners) else NOBODY


def bit_of(data: Buffer, position: int) -> int:
    """0 or 1."""
    return data[position >> 3] >> (7 - (position & 7)) & 1


def stream_bit(geometry: Geometry, lock: Lock, stream: bytes, position: int) -> int:
    """What one pair's stream of a round adds to the bit at `position` of an upstream frame."""
    if position < 8 * geometry.payload_bytes:
        return bit_of(stream, position)
    lane, bit = divmod(position - 8 * geometry.payload_bytes, LANE_BITS)
    first = geometry.payload_bytes + lane * LANE_BYTES
    second = first + geometry.lane_bytes
    secrets = stream[first : first + LANE_BYTES] + stream[second : second + LANE_BYTES]
    return bit_of(lock.mask(secrets), bit)
