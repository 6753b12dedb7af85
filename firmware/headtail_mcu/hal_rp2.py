"""RP2040 and RP2350, which have no wake from deep sleep that a program could tell from a reset.

A mark in the watchdog's first scratch register, that a reset leaves alone, tells it (RP2040
datasheet, 4.7.6; the boot ROM uses registers 4 to 7). And a watchdog that was started goes on while
the chip sleeps, so the sleep is one of short naps, each with a meal before it.
"""

from .hal_machine import MachineBoard

_SCRATCH = {"RP2040": 0x4005800C, "RP2350": 0x400D800C}
_ASLEEP = 0x48545A7A
_NAP_MS = 4000


class Rp2Board(MachineBoard):
    """See `hal`. `chip`: what `os.uname().machine` ends with."""

    def __init__(self, machine, state_path, battery_mv, chip):
        super().__init__(machine, state_path, battery_mv)
        self._scratch = _SCRATCH.get(chip, 0)
        self._woke = False
        if self._scratch:
            self._woke = machine.mem32[self._scratch] == _ASLEEP
            machine.mem32[self._scratch] = 0

    def wake_reason(self):
        return "deep-sleep" if self._woke else super().wake_reason()

    def deep_sleep(self, ms):
        while ms > 0:
            self.feed()
            nap = min(ms, _NAP_MS)
            self._machine.lightsleep(nap)
            ms -= nap
        if self._scratch:
            self._machine.mem32[self._scratch] = _ASLEEP
        self._machine.reset()
