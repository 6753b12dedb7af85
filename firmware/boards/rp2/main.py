"""Raspberry Pi Pico W and Pico 2 W: the node in this flash.

Hold BOOTSEL for a second after the reset to stay at the prompt instead.
"""

import time

import machine
import rp2
from headtail_mcu.assembly import main
from headtail_mcu.hal import open_board

BATTERY_PIN = None
"""Where half of the battery's voltage lies (26, 27 or 28), if anywhere."""
REFERENCE_MV = 3300


def battery_mv():
    """Of the divider's upper end."""
    raw = machine.ADC(machine.Pin(BATTERY_PIN)).read_u16()
    return 2 * REFERENCE_MV * raw // 65535


time.sleep_ms(500)
board = open_board("kept.bin", battery_mv if BATTERY_PIN is not None else None)
if rp2.bootsel_button():
    board.say("BOOTSEL is held: no node is started")
else:
    main("", board)
