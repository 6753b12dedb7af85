"""Levels of a front end, by each of its steps: patches of the samples in a file, in hex.

run_front.py HEAD SAMPLES PIECE    pushed in pieces of so many bytes
"""

import sys

from headtail_mcu import frontend, frontend_py, frontend_viper

with open(sys.argv[1], "rb") as file:
    blob = file.read()
with open(sys.argv[2], "rb") as file:
    samples = file.read()
piece = int(sys.argv[3])

opened, name = frontend.open_front(blob)
assert name == "viper", name
tables = opened._tables
for steps in (frontend_viper, frontend_py):
    front = type(opened)(tables, steps)
    front.self_test()
    assert not front.ready
    for at in range(0, len(samples), piece):
        front.push(samples[at : at + piece])
    assert front.ready
    patch = bytearray(len(front._ring))
    front.fill(patch)
    print(patch.hex())
