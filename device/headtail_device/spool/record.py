"""How one entry lies in a file.

    magic "HS"  version  0   length u32   number u64   body's CRC-32   the CRC-32 of all that
    state (one byte, changed in place)
    body

Little-endian. The header has a CRC of its own, so that its length can be trusted, and one damaged
body costs no other entry; after a damaged header the next one is searched for. The state is in no
CRC: replacing that one byte is how an entry ends, which needs no space on a full disk, and is done
or not whenever the power goes.
"""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

MAGIC: Final = b"HS\x01\x00"
_FIELDS: Final = struct.Struct("<4sIQI")
_CRC: Final = struct.Struct("<I")
STATE_AT: Final = _FIELDS.size + _CRC.size
OVERHEAD_BYTES: Final = STATE_AT + 1

WAITING: Final = 0
ENDED: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A record at `at` of its file, `size` bytes with everything; `whole` unless it is damaged."""

    number: int
    at: int
    size: int
    state: int
    whole: bool


def pack(number: int, body: bytes) -> bytes:
    """A record that waits."""
    fields = _FIELDS.pack(MAGIC, len(body), number, zlib.crc32(body))
    return b"".join((fields, _CRC.pack(zlib.crc32(fields)), bytes([WAITING]), body))


def scan(data: bytes) -> Iterator[Found]:
    """The records of a file, whatever it holds; one with a damaged header has the number 0. One
    that the file's end cuts off was never taken, and is not told."""
    at = 0
    while (at := data.find(MAGIC, at)) >= 0:
        if at + OVERHEAD_BYTES > len(data):
            return
        header = _header(data, at)
        if header is None:
            yield Found(number=0, at=at, size=OVERHEAD_BYTES, state=WAITING, whole=False)
            at += 1
            continue
        length, number, crc = header
        begin, end = at + OVERHEAD_BYTES, at + OVERHEAD_BYTES + length
        if end > len(data):
            return
        whole = zlib.crc32(memoryview(data)[begin:end]) == crc
        state = data[at + STATE_AT]
        yield Found(number=number, at=at, size=end - at, state=state, whole=whole)
        at = end


def unpack(data: bytes) -> bytes | None:
    """The body of the record that `data` is, None when it is damaged."""
    for found in scan(data):
        return data[OVERHEAD_BYTES : found.size] if found.at == 0 and found.whole else None
    return None


def _header(data: bytes, at: int) -> tuple[int, int, int] | None:
    """Length, number and CRC of the body, None for what is no header."""
    (crc,) = _CRC.unpack_from(data, at + _FIELDS.size)
    if zlib.crc32(memoryview(data)[at : at + _FIELDS.size]) != crc:
        return None
    _, length, number, body_crc = _FIELDS.unpack_from(data, at)
    return length, number, body_crc
