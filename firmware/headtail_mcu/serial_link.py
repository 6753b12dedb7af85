"""Packets over a serial line: COBS between zero bytes, with a CRC-32.

Cheshire and Baker, "Consistent Overhead Byte Stuffing" (1997): no zero inside a packet, so after
any noise the next zero is the beginning of something whole. A packet that is damaged or too long is
dropped and counted; whoever needs it sends it again.
"""

import binascii

_CRC_BYTES = 4
_RUN = 254


def encode(packet):
    """The bytes on the line, both zeros included: one before, that ends what noise began."""
    data = bytes(packet) + binascii.crc32(packet).to_bytes(_CRC_BYTES, "little")
    out = bytearray(1)
    at, size = 0, len(data)
    while at <= size:
        zero = data.find(b"\x00", at, at + _RUN)
        end = zero if zero >= 0 else min(size, at + _RUN)
        out.append(end - at + 1)
        out.extend(data[at:end])
        at = end + 1 if zero >= 0 or end == size else end
    out.append(0)
    return bytes(out)


class Decoder:
    """Packets out of a stream. `damaged` counts what had to be dropped."""

    def __init__(self, max_bytes=4096):
        self._longest = max_bytes + _CRC_BYTES + (max_bytes + _CRC_BYTES) // _RUN + 1
        self._buffer = bytearray()
        self._skipping = False
        self.damaged = 0

    def receive(self, data):
        """The packets that are now whole, in order."""
        packets = []
        at = 0
        while at < len(data):
            zero = data.find(b"\x00", at)
            end = zero if zero >= 0 else len(data)
            self._gather(data[at:end])
            at = end + 1
            if zero >= 0:
                packet = self._finish()
                if packet is not None:
                    packets.append(packet)
        return packets

    def _gather(self, piece):
        if self._skipping or len(self._buffer) + len(piece) > self._longest:
            self._skipping = True
            self._buffer = bytearray()
        else:
            self._buffer.extend(piece)

    def _finish(self):
        """The packet that the zero ended; None for nothing between two zeros, or for a bad one."""
        stuffed, self._buffer = self._buffer, bytearray()
        skipped, self._skipping = self._skipping, False
        if not stuffed and not skipped:
            return None
        data = None if skipped else _unstuffed(stuffed)
        if data is None or len(data) < _CRC_BYTES:
            self.damaged += 1
            return None
        packet = bytes(data[:-_CRC_BYTES])
        if binascii.crc32(packet).to_bytes(_CRC_BYTES, "little") != data[-_CRC_BYTES:]:
            self.damaged += 1
            return None
        return packet


def _unstuffed(stuffed):
    out = bytearray()
    at = 0
    while at < len(stuffed):
        code = stuffed[at]
        end = at + code
        if end > len(stuffed):
            return None
        out.extend(stuffed[at + 1 : end])
        if code <= _RUN and end < len(stuffed):
            out.append(0)
        at = end
    return out
