"""Packets on a stream, a serial line or TCP: COBS between zero bytes, with a CRC-32.

Cheshire and Baker, "Consistent Overhead Byte Stuffing" (1997). Nodes have the same in
`firmware/headtail_mcu/serial_link.py`.
"""

import zlib
from collections.abc import Iterator
from typing import Final

_CRC_BYTES: Final = 4
_RUN: Final = 254


def encode(packet: bytes) -> bytes:
    """The bytes on the line, both zeros included: one before, that ends what noise began."""
    data = packet + zlib.crc32(packet).to_bytes(_CRC_BYTES, "little")
    out = bytearray(1)
    pieces = data.split(b"\0")
    for index, piece in enumerate(pieces):
        last = index == len(pieces) - 1
        while len(piece) > _RUN or (len(piece) == _RUN and not last):
            out.append(_RUN + 1)
            out += piece[:_RUN]
            piece = piece[_RUN:]
        if len(piece) == _RUN:
            out.append(_RUN + 1)
            out += piece
        else:
            out.append(len(piece) + 1)
            out += piece
    out.append(0)
    return bytes(out)


class Decoder:
    """Packets out of a stream; `damaged` counts what had to be dropped. No more than one packet of
    `max_bytes` is ever kept."""

    def __init__(self, *, max_bytes: int) -> None:
        self._longest = max_bytes + _CRC_BYTES + (max_bytes + _CRC_BYTES) // _RUN + 1
        self._buffer = bytearray()
        self._skipping = False
        self.damaged = 0

    def receive(self, data: bytes) -> Iterator[bytes]:
        """The packets that are now whole, in order."""
        *ended, rest = data.split(b"\0")
        for piece in ended:
            self._gather(piece)
            packet = self._finish()
            if packet is not None:
                yield packet
        self._gather(rest)

    def _gather(self, piece: bytes) -> None:
        if self._skipping or len(self._buffer) + len(piece) > self._longest:
            self._skipping = True
            self._buffer.clear()
        else:
            self._buffer += piece

    def _finish(self) -> bytes | None:
        stuffed, self._buffer = bytes(self._buffer), bytearray()
        skipped, self._skipping = self._skipping, False
        if not stuffed and not skipped:
            return None
        data = None if skipped else _unstuffed(stuffed)
        if data is None or len(data) < _CRC_BYTES:
            self.damaged += 1
            return None
        packet = data[:-_CRC_BYTES]
        if zlib.crc32(packet).to_bytes(_CRC_BYTES, "little") != data[-_CRC_BYTES:]:
            self.damaged += 1
            return None
        return packet


def _unstuffed(stuffed: bytes) -> bytes | None:
    out, at = bytearray(), 0
    while at < len(stuffed):
        code = stuffed[at]
        end = at + code
        if end > len(stuffed):
            return None
        out += stuffed[at + 1 : end]
        if code <= _RUN and end < len(stuffed):
            out.append(0)
        at = end
    return bytes(out)
