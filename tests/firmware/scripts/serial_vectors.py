"""Packets whose bytes on the line are known."""

from headtail_mcu.serial_link import Decoder, encode

# CRC-32 of nothing is 0; of b"123456789" it is 0xCBF43926 (the usual check value).
CASES = (
    (b"", b"\x00\x01\x01\x01\x01\x01\x00"),
    (b"123456789", b"\x00\x0e123456789\x26\x39\xf4\xcb\x00"),
)
for packet, line in CASES:
    assert encode(packet) == line, encode(packet)
decoder = Decoder()
for size in (0, 1, 249, 250, 251, 253, 254, 255, 508, 1000):
    for packet in (bytes(size), b"\xaa" * size, bytes(i & 255 for i in range(size))):
        assert decoder.receive(encode(packet)) == [packet], size
assert decoder.damaged == 0
print("passed")
