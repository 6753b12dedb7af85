"""ESP32 and ESP32-S3: the node in this flash.

Hold BOOT (GPIO 0) after the reset to stay at the prompt instead.
"""

import time

import machine
from headtail_mcu.assembly import main
from headtail_mcu.hal import open_board

BOOT_PIN = 0
BATTERY_PIN = None
"""Where half of the battery's voltage lies, if anywhere; one of ADC 1, as ADC 2 is the radio's."""


def battery_mv():
    """Of the divider's upper end; the port corrects for the chip's reference."""
    divider = machine.ADC(machine.Pin(BATTERY_PIN), atten=machine.ADC.ATTN_11DB)
    return 2 * divider.read_uv() // 1000


time.sleep_ms(500)
board = open_board("kept.bin", battery_mv if BATTERY_PIN is not None else None)
if not machine.Pin(BOOT_PIN, machine.Pin.IN, machine.Pin.PULL_UP).value():
    board.say("BOOT is held: no node is started")
else:
    main("", board)
