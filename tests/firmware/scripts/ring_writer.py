"""Appends to a ring log until it is killed; says each number once it is safe."""

import sys

from headtail_mcu.ring import RingLog

log = RingLog(sys.argv[1], 64, 64)
while True:
    sequence = log.append(0, b"payload of some length")
    log.flush()
    print(sequence)
    if sequence % 10 == 0:
        log.acknowledge(sequence - 5)
        print("acknowledged", sequence - 5)
