"""Instructions of a head's front end on an emulated Cortex-M3, by its SysTick.

Run on the board with /host/a.head there; prints a line for each step of a log-mel spectrum, or one
for a reading of a sensor.
"""

from headtail_mcu import frontend, frontend_viper
from machine import mem32

_CONTROL, _RELOAD, _VALUE = 0xE000E010, 0xE000E014, 0xE000E018
_NS_A_TICK = 40  # 25 MHz; the emulator's clock is a nanosecond an instruction
_FULL = 0xFFFFFF


def counted(work, *words):
    mem32[_RELOAD] = _FULL
    mem32[_VALUE] = 0
    mem32[_CONTROL] = 5
    work(*words)
    return (_FULL - mem32[_VALUE]) * _NS_A_TICK


def nothing(*_):
    pass


def count():
    with open("/host/a.head", "rb") as file:
        blob = file.read()
    front, steps = frontend.open_front(blob)
    idle = counted(nothing, 0, 0)
    if not hasattr(front, "hop"):
        reading = bytes(range(1, 2 * front.channels + 1))
        print("reading", counted(front.push, reading) - idle)
        return
    assert steps == "viper"
    tables, work, held = front._at
    for at in range(len(front._held)):
        front._held[at] = at * 37 & 255
    row = frontend_viper.address(front._row())
    for name, words in (
        ("shifted", (held, tables, work)),
        ("transform", (work, tables)),
        ("magnitudes", (work, tables)),
        ("levels", (work, tables, row, 3)),
    ):
        print(name, counted(getattr(frontend_viper, name), *words) - idle)
    piece = bytes(2 * front.hop)
    front._count = 2 * (front.window - front.hop)
    print("spectrum", counted(front.push, piece) - idle)


count()
