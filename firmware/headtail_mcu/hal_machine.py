"""Boards with MicroPython's `machine` module: RP2, ESP32, STM32."""

import os
import sys
import time

from .kept_file import KeptFile
from .radio import NoRadio, Wifi

_RTC_BYTES = 1024


class MachineBoard:
    """See `hal`."""

    def __init__(self, machine, state_path, battery_mv=None):
        self._machine = machine
        self._battery_mv = battery_mv
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

    def say(self, text):
        sys.stdout.write(text + "\n")

    def restart(self):
        self._machine.reset()

    def battery_mv(self):
        return 0 if self._battery_mv is None else self._battery_mv()

    def open_uart(self, link):
        return self._machine.UART(link["uart"], baudrate=link["baud"], timeout=0, rxbuf=1024)

    def open_radio(self, ssid, password):
        return Wifi(ssid, password) if ssid else NoRadio()

    def keep(self, data):
        if len(data) > _RTC_BYTES:
            raise ValueError(f"{len(data)} bytes, {_RTC_BYTES} can be kept")
        if self._memory is not None:
            self._memory(data)
        else:
            self._file.write(data)

    def kept(self):
        return bytes(self._memory()) if self._memory is not None else self._file.read()
