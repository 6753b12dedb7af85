"""What goes through the DC-net: messages upstream (in fragments), items downstream (broadcast).

    up    DATAGRAM  sealed to the exit: payload
          OPEN      sealed to the exit: 32 secret bytes of a new stream
          SEGMENT   label 16 B | number u32 | flags u8 | sealed bytes
    down  REPLY     label 16 B | number u32 | flags u8 | sealed bytes
          SEGMENT   label 16 B | number u32 | flags u8 | sealed bytes

A label is known to the two ends only until it is used; everybody sees it then, and can link what
carries the same one, but not whose it is.
"""

from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from headtail_prifi.app.errors import TrafficError
from headtail_prifi.crypto.cipher import TAG_BYTES
from headtail_prifi.crypto.seal import LABEL_BYTES

LAST: Final = 0x01
MAX_NUMBER: Final = 2**32 - 1

_PART: Final = Struct(f">B{LABEL_BYTES}sIB")
PART_OVERHEAD: Final = _PART.size + TAG_BYTES


class Tag(IntEnum):
    """The first byte."""

    DATAGRAM = 1
    OPEN = 2
    SEGMENT = 3
    REPLY = 4


class Part(NamedTuple):
    """A numbered, sealed piece of a stream or of a reply; `LAST` ends it."""

    tag: Tag
    label: bytes
    number: int
    flags: int
    sealed: bytes

    def encode(self) -> bytes:
        return _PART.pack(self.tag, self.label, self.number, self.flags) + self.sealed


def read_tag(data: bytes) -> Tag:
    """The kind of a message or item; TrafficError if there is none of that number."""
    try:
        return Tag(data[0])
    except (IndexError, ValueError):
        raise TrafficError("neither a datagram nor a part of a stream or reply") from None


def read_part(data: bytes) -> Part:
    """A SEGMENT or REPLY; TrafficError for everything else."""
    tag = read_tag(data)
    if tag not in (Tag.SEGMENT, Tag.REPLY) or len(data) < PART_OVERHEAD:
        raise TrafficError(f"a {tag.name.lower()} of {len(data)} bytes")
    _, label, number, flags = _PART.unpack_from(data)
    if flags & ~LAST:
        raise TrafficError(f"flags {flags:#x}")
    return Part(tag, label, number, flags, data[_PART.size :])
