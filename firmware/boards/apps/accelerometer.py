"""An app for heads that feel: an MPU-6050 (or MPU-6500, MPU-9250) on I2C, three axes.

    "app": {"module": "accelerometer", "options": {"id": 0, "scl": 5, "sda": 4, "step": 32}}

Readings are taken at the head's rate while `fill` runs; each `step` of them the last patch is
looked at. Channels are x, y, z in steps of 1/16384 g, as the sensor gives them.
"""

import struct
import time

from machine import I2C, Pin

_ADDRESS = 0x68
_POWER = 0x6B
_ACCELERATION = 0x3B


def open(board, options):
    """Pins as numbers."""
    return Accelerometer(board, options)


class Accelerometer:
    def __init__(self, board, options):
        self._board = board
        self._step = options.get("step", 32)
        self._i2c = I2C(
            options.get("id", 0), scl=Pin(options["scl"]), sda=Pin(options["sda"]), freq=400000
        )
        self._i2c.writeto_mem(_ADDRESS, _POWER, b"\x00")  # awake, +-2 g

    def fill(self, head, front):
        period_us = 1000000 // front.rate
        due = time.ticks_us()
        for _ in range(self._step):
            values = struct.unpack(">hhh", self._i2c.readfrom_mem(_ADDRESS, _ACCELERATION, 6))
            front.push(struct.pack("<hhh", *values))
            self._board.feed()
            due = time.ticks_add(due, period_us)
            time.sleep_us(max(0, time.ticks_diff(due, time.ticks_us())))
        if not front.ready:
            return False
        front.fill(head.input)
        return True

    def decided(self, answer, score, where):
        self._board.say(f"felt {answer} ({where})")
        return False
