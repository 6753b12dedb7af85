"""How a node is, in one record: 31 bytes.

uptime u32 s | heap free u32 | heap least u32 | battery u16 mV | rssi i8 | wake u8 | lost u32
| inference u32 us | crashes u8 | failures u8 | release u32     (0 for what a board can't tell)
"""

import gc
import struct

from .messages import TELEMETRY, WAKES

_FORM = "<BIIIHbBIIBBI"


class Telemetry:
    """Gathers; `payload` makes the record."""

    def __init__(self, board, wake):
        self._board = board
        self._wake = wake
        gc.collect()
        self._least = gc.mem_free()
        self.inference_us = 0

    def look(self):
        """The heap is at its fullest now: remember how much was left, garbage aside. A good moment
        to clear that away, too, before the heap is in pieces."""
        gc.collect()
        self._least = min(self._least, gc.mem_free())

    def payload(self, now, lost, crashes, failures, release, rssi):
        gc.collect()
        free = gc.mem_free()
        self._least = min(self._least, free)
        return struct.pack(
            _FORM,
            *(TELEMETRY, now // 1000, free, self._least, self._board.battery_mv(), rssi),
            *(WAKES.index(self._wake), lost, self.inference_us, crashes, failures, release),
        )
