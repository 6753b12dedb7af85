"""The board behind one interface, so that the rest of the firmware runs on the unix port as well.

start_watchdog(ms)  feed()     a watchdog that can't be stopped; feeding before it starts is free
wake_reason()                  "power-on", "deep-sleep", "watchdog" or "reset"
unique_id()                    bytes that no other board of the kind has
random(n)                      bytes for keys and nonces
ticks_ms()  since(t)           a clock that wraps; milliseconds since an earlier tick
sleep_ms(ms)                   light: memory stays
deep_sleep(ms)                 does not return; only what was kept is there afterwards
say(text)                      a line on the console
restart()                      does not return
battery_mv()                   0 where nobody can tell
open_uart(link)                the serial line of a configuration: read() and write(data)
open_radio(ssid, password)     see `radio`
keep(data)  kept()             a few bytes that survive deep sleep, b"" after power-on
"""

import os
import sys


def open_board(state_path="kept.bin", battery_mv=None):
    """The board that this runs on. `state_path`: where ports without such memory keep bytes.
    `battery_mv`: measures, where a board file knows how."""
    try:
        import machine

        if sys.platform == "rp2":
            from .hal_rp2 import Rp2Board

            chip = os.uname().machine.rsplit(" ", 1)[-1]
            return Rp2Board(machine, state_path, battery_mv, chip)
        if hasattr(machine, "WDT"):
            from .hal_machine import MachineBoard

            return MachineBoard(machine, state_path, battery_mv)
    except ImportError:
        pass
    from .hal_unix import UnixBoard

    return UnixBoard(state_path)
