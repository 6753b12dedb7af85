"""Boards with MicroPython's `machine` module: RP2, ESP32, STM32."""

import os
import time

from .kept_file import KeptFile

_RTC_BYTES = 1024


class MachineBoard:
    """See `hal`."""

    def __init__(self, machine, state_path):
        self._machine = machine
        self._watchdog = None
        memory = getattr(machine.RTC(), "memory", None)  # ESP32 and ESP8266 have it
        self._memory = memory
        self._file = None if memory else KeptFile(state_path)

    def start_watchdog(self, ms):
        self._watchdog = self._machine.WDT(timeout=ms)

    def feed(self):
        if self._watchdog is not None:
            self._watchdog.feed()

    def wake_reason(self):
        cause = self._machine.reset_cause()
        for name, reason in (
            ("PWRON_RESET", "power-on"),
            ("DEEPSLEEP_RESET", "deep-sleep"),
            ("WDT_RESET", "watchdog"),
        ):
            if cause == getattr(self._machine, name, None):
                return reason
        return "reset"

    def unique_id(self):
        return bytes(self._machine.unique_id())

    def random(self, n):
        return os.urandom(n)

    def ticks_ms(self):
        return time.ticks_ms()

    def since(self, ticks):
        return time.ticks_diff(time.ticks_ms(), ticks)

    def sleep_ms(self, ms):
        time.sleep_ms(ms)

    def deep_sleep(self, ms):
        self._machine.deepsleep(ms)

    def keep(self, data):
        if len(data) > _RTC_BYTES:
            raise ValueError(f"{len(data)} bytes, {_RTC_BYTES} can be kept")
        if self._memory is not None:
            self._memory(data)
        else:
            self._file.write(data)

    def kept(self):
        return bytes(self._memory()) if self._memory is not None else self._file.read()
