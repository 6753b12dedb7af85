"""Time on a board: ticks that do not wrap, and the time of day as the gateway told it."""

import time

_KEPT_BYTES = 8


class Ticks:
    """Milliseconds since it was made, that do not wrap, from ticks that do.

    Asked at least once in six days, as every loop does.
    """

    def __init__(self):
        self._ticks = time.ticks_ms()
        self._now = 0

    def now(self):
        ticks = time.ticks_ms()
        self._now += time.ticks_diff(ticks, self._ticks)
        self._ticks = ticks
        return self._now


class DayClock:
    """Seconds since 1970, once somebody has told them; no port's own epoch matters."""

    def __init__(self, now, kept=b""):
        """`kept`: what `pack` gave before a deep sleep."""
        told = int.from_bytes(kept[:_KEPT_BYTES], "little")
        self._base_ms = told - now if told else None

    def set(self, seconds, milliseconds, now):
        self._base_ms = seconds * 1000 + milliseconds - now

    def seconds(self, now):
        """0 while it is not known."""
        return 0 if self._base_ms is None else (self._base_ms + now) // 1000

    def pack(self, now, slept_ms):
        """What to keep for after a sleep of so long: 8 bytes."""
        told = 0 if self._base_ms is None else self._base_ms + now + slept_ms
        return told.to_bytes(_KEPT_BYTES, "little")
