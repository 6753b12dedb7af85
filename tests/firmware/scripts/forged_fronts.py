"""A head's front end with each byte of its section changed: refused, or harmless."""

import struct
import sys

from headtail_mcu import frontend
from headtail_mcu.errors import HeadError

with open(sys.argv[1], "rb") as file:
    blob = bytearray(file.read())

front, _ = frontend.open_front(blob)
if front is None:
    print("none")
    sys.exit()

at = struct.unpack_from("<I", blob, 52)[0]
refused = harmless = 0
for place in range(at, len(blob) - 4):
    for change in (1, 0x80):
        blob[place] ^= change
        try:
            frontend.open_front(blob)
            harmless += 1
        except (HeadError, MemoryError):
            refused += 1
        blob[place] ^= change
frontend.open_front(blob)
print(f"refused {refused}, harmless {harmless}")
