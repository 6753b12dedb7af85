"""Milliseconds of a head on this machine's MicroPython: time_head.py HEAD REPEATS."""

import sys
import time

from headtail_mcu import head
from headtail_mcu.backends import backends

path, repeats = sys.argv[1:]
with open(path, "rb") as file:
    blob = file.read()
for name, kernels in backends():
    found = head.Head(blob, kernels)
    found.self_test()
    best = None
    for _ in range(int(repeats) if name != "python" else 1):
        began_at = time.ticks_us()
        found.run()
        took = time.ticks_diff(time.ticks_us(), began_at)
        best = took if best is None or took < best else best
    print("head", name, best)
