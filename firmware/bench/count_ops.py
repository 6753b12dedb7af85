"""Instructions of each operation of a head on an emulated Cortex-M3, by its SysTick.

Run on the board with /host/a.head there; prints a line an operation: index, kind, instructions.
"""

import gc

from headtail_mcu import head
from headtail_mcu.backends import backends
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


def nothing(row, fed):
    pass


def count():
    with open("/host/a.head", "rb") as file:
        blob = file.read()
    for name, kernels in backends()[:-1]:  # the last one is plain Python, too slow for this
        found = None  # its arena, before the next one's is allocated
        gc.collect()
        found = head.Head(blob, kernels)
        try:
            found.self_test()
        except head.HeadError as error:
            print("refused", name, error)
            continue
        idle = counted(nothing, 0, None)
        for index, row in enumerate(found._rows):
            instructions = counted(found._operate, row, None) - idle
            print("op", name, index, blob[row], max(0, instructions))
        gc.collect()
        print("heap", name, gc.mem_alloc(), gc.mem_free())


count()  # in a function, so that the board keeps nothing of this head when the next one comes
