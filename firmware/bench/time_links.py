"""Handshake, round trips and throughput of ZMTP against an echoing ROUTER, and the envelope.

time_links.py PORT null | PORT curve SERVER_KEY SECRET_KEY; prints microseconds.
"""

import gc
import sys
import time
from binascii import unhexlify

from headtail_mcu.curve import Curve
from headtail_mcu.envelope import UP, Opener, Sealer
from headtail_mcu.mechanisms import Null
from headtail_mcu.zmtp_link import ZmtpLink

SIZES = (64, 1024, 8192)
TRIPS = 200
BURST = 4
port, mechanism, *words = sys.argv[1:]


def took(work, times=1):
    began_at = time.ticks_us()
    for _ in range(times):
        work()
    return time.ticks_diff(time.ticks_us(), began_at) / times


def trip():
    link.send(payload)
    assert link.poll(20000) is not None


made = Null() if mechanism == "null" else Curve(unhexlify(words[0]), unhexlify(words[1]))
began_at = time.ticks_us()
link = ZmtpLink("127.0.0.1", int(port), made)
link.wait_ready(20000)
print("handshake", 0, time.ticks_diff(time.ticks_us(), began_at))
for size in SIZES:
    payload = bytes(size)
    trip()
    print("trip", size, took(trip, TRIPS))
link.close()
link = made = None  # their buffers, before the heap is asked for packets in one piece
gc.collect()
sealer, opener = Sealer(bytes(32), 1, 1, UP), Opener(bytes(32), 1, UP)


def seal():
    packets.append(sealer.seal(payload))


def unseal():
    opener.open(packets.pop(0))


for size in SIZES:
    payload = bytes(size)
    sealing = opening = 0
    for _ in range(TRIPS // BURST):
        packets = []
        sealing += took(seal, BURST)
        opening += took(unseal, BURST)
        gc.collect()
    print("seal", size, sealing * BURST / TRIPS)
    print("open", size, opening * BURST / TRIPS)
