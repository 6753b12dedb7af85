"""What MicroPython 1.26 and 1.27 miscompiled on Thumb and RISC-V (their issue 18800): a store to a
computed index of ptr32 or ptr16 lost the index. Compiled by our mpy-cross, it must be right."""

from array import array

import micropython


@micropython.viper
def add_words(x: ptr32, y: ptr32, n: int):
    i = 0
    while i < n:
        x[i] = x[i] + y[i]
        i += 1


@micropython.viper
def add_halves(x: ptr16, y: ptr16, n: int):
    i = 0
    while i < n:
        x[i] = x[i] + y[i]
        i += 1


def right():
    for kind, add in (("I", add_words), ("H", add_halves)):
        x = array(kind, range(40))
        y = array(kind, (3 * i for i in range(40)))
        add(x, y, 40)
        if list(x) != [4 * i for i in range(40)]:
            return False
    return True
