"""Envelopes: frozen bytes, replays, forgeries, and boots."""

import json
import sys
from binascii import unhexlify

from headtail_mcu.envelope import DOWN, UP, Opener, Sealer
from headtail_mcu.errors import LinkError
from headtail_mcu.kept_file import KeptFile, next_boot

vectors_path, boot_path = sys.argv[1:]
with open(vectors_path) as file:
    vectors = json.load(file)
PSK = unhexlify(vectors["psk"])


def refuses(opener, packet):
    try:
        opener.open(packet)
    except LinkError:
        return True
    return False


for direction, way in ((UP, "up"), (DOWN, "down")):
    sealer = Sealer(PSK, vectors["key_id"], vectors["boot"], direction)
    opener = Opener(PSK, vectors["key_id"], direction)
    for case in vectors[way]:
        packet = sealer.seal(unhexlify(case["payload"]))
        assert packet == unhexlify(case["packet"]), case
        assert opener.open(packet) == unhexlify(case["payload"])
        assert refuses(opener, packet)

sealer = Sealer(PSK, 7, 3)
packets = [sealer.seal(bytes((i,))) for i in range(100)]
opener = Opener(PSK, 7, UP)
assert opener.open(packets[80]) == bytes((80,))
assert opener.open(packets[17]) == bytes((17,))  # 63 places late
assert refuses(opener, packets[16])
assert refuses(opener, packets[17])
assert refuses(Opener(PSK, 7, DOWN), packets[1])
assert refuses(Opener(PSK, 8, UP), packets[1])
assert refuses(Opener(bytes(16), 7, UP), packets[1])
for at in range(len(packets[5])):
    forged = bytearray(packets[5])
    forged[at] ^= 1
    assert refuses(Opener(PSK, 7, UP), bytes(forged))
assert refuses(opener, b"")

kept = KeptFile(boot_path)
assert [next_boot(kept), next_boot(kept), next_boot(KeptFile(boot_path))] == [1, 2, 3]
late = Opener(PSK, 7, UP)
assert late.open(Sealer(PSK, 7, 4).seal(b"new boot")) == b"new boot"
assert refuses(late, packets[99])
print("passed")
