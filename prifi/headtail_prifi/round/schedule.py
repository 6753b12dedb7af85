"""Whose turn it is: reservations and backlogs in, owners of sub-slots out.

Every round carries everybody's reservation bit, so there are no rounds just for asking. A claim
made in round k says "after this round I have that many more cells"; as up to W rounds are open, the
relay may have granted turns meanwhile, and those count against it. Waiting slots are served in
turn, so each gets an equal share of a full net, and all sub-slots when it is alone.
"""

from collections import Counter, deque
from functools import lru_cache
from struct import Struct

import numpy as np

from headtail_prifi.core.geometry import MAX_SUB_SLOTS, Geometry
from headtail_prifi.core.messages import NOBODY


class Scheduler:
    """Knows slots, never clients; pure bookkeeping without a clock."""

    def __init__(self, geometry: Geometry) -> None:
        self._geometry = geometry
        self._owed: Counter[int] = Counter()
        self._waiting: deque[int] = deque()
        self._granted: deque[tuple[int, tuple[int, ...]]] = deque(maxlen=geometry.window)
        self._banned: set[int] = set()

    @property
    def idle(self) -> bool:
        """Nobody waits for a turn."""
        return not self._waiting

    def grant(self, round_: int) -> bytes:
        """The owners of a round that is about to open, as the downstream frame announces them."""
        owners: list[int] = []
        while self._waiting and len(owners) < self._geometry.sub_slots:
            slot = self._waiting.popleft()
            owners.append(slot)
            self._owed[slot] -= 1
            if self._owed[slot] > 0:
                self._waiting.append(slot)
        owners += [NOBODY] * (self._geometry.sub_slots - len(owners))
        self._granted.append((round_, tuple(owners)))
        return encode_owners(tuple(owners))

    def on_cell(self, round_: int, slot: int, backlog: int) -> None:
        """The owner spoke in `round_` and has `backlog` more cells."""
        self._claim(slot, backlog - self._granted_after(round_).count(slot))

    def on_silence(self, slot: int) -> None:
        """The owner had a turn and let it pass: forget what it claimed before."""
        self._claim(slot, 0)

    def on_disruption(self, round_: int, slot: int) -> None:
        """The owner's cell was spoilt: it gets another turn, to accuse or to repeat."""
        granted = self._granted_after(round_).count(slot)
        self._claim(slot, max(self._owed[slot], 1 - granted))

    def on_reservations(self, round_: int, lanes: bytes) -> None:
        """The opened reservation lanes of `round_`. Call it after `on_cell` of that round."""
        slots = reserved_slots(lanes, self._geometry.clients)
        if not slots:
            return
        granted = Counter(self._granted_after(round_))
        for slot in slots:
            self._claim(slot, max(self._owed[slot], 1 - granted[slot]))

    def ban(self, slot: int) -> None:
        """Never grant this pseudonym a turn again."""
        self._banned.add(slot)
        self._claim(slot, 0)

    def _claim(self, slot: int, turns: int) -> None:
        turns = 0 if slot in self._banned else max(0, turns)
        if turns and not self._owed[slot]:
            self._waiting.append(slot)
        elif not turns and self._owed[slot]:
            self._waiting.remove(slot)
        self._owed[slot] = turns

    def _granted_after(self, round_: int) -> list[int]:
        """The owners of all sub-slots of later rounds."""
        return [owner for opened, owners in self._granted if opened > round_ for owner in owners]


def reserved_slots(lanes: bytes, clients: int) -> list[int]:
    """The slots whose bit is set."""
    if not any(lanes):
        return []
    bits = np.unpackbits(np.frombuffer(lanes, np.uint8), count=clients)
    slots: list[int] = bits.nonzero()[0].tolist()
    return slots


def encode_owners(owners: tuple[int, ...]) -> bytes:
    """2 bytes a sub-slot, big-endian."""
    return b"".join(owner.to_bytes(2) for owner in owners)


def decode_owners(data: bytes) -> tuple[int, ...]:
    """The slot of each sub-slot, or NOBODY; an even number of bytes."""
    return _owners(len(data) // 2).unpack(data)


@lru_cache(maxsize=MAX_SUB_SLOTS)
def _owners(sub_slots: int) -> Struct:
    return Struct(f">{sub_slots}H")
