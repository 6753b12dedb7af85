"""The 12 bytes in front of every frame, and the closed table of frame kinds.

    kind u8 | format and flags u8 | sender u16 | round u32 | epoch u16 | version u16     big-endian

`epoch` is the start of the epoch's id and `version` counts its memberships: together they keep
frames of another time apart; what they mean is enforced by keys and signatures, not by them.
"""

from enum import IntEnum
from struct import Struct
from typing import Final

import msgspec

from headtail_prifi.core.errors import FrameError

FORMAT: Final = 0x10
HEADER: Final = Struct(">BBHIHH")
HEADER_BYTES: Final = HEADER.size
VOUCHED: Final = 0x01
MAX_ROUND: Final = 2**32 - 1
MAX_VERSION: Final = 2**16 - 1

Buffer = bytes | bytearray | memoryview


class Kind(IntEnum):
    """What a frame is; the sender's role and the body follow from it."""

    DOWN = 1
    UP = 2
    PADS = 3
    NACK = 4
    GRANT = 5
    PROPOSE = 6
    ENDORSE = 7
    LEAVE = 8
    CASE = 9
    REVEAL = 10
    CONFLICT = 11
    OPENING = 12
    VERDICT = 13
    CALL = 14
    SUBMIT = 15
    MIX = 16
    MIXED = 17
    UNMASK = 18
    SHARES = 19
    VOUCH = 20
    VOUCHED = 21


_KINDS: Final = {int(kind): kind for kind in Kind}


class Header(msgspec.Struct, frozen=True, gc=False):
    """`sender` is an index within the role that may send this kind; the relay's is 0."""

    kind: Kind
    flags: int
    sender: int
    round: int
    epoch: int
    version: int

    def encode(self) -> bytes:
        return HEADER.pack(
            self.kind, FORMAT | self.flags, self.sender, self.round, self.epoch, self.version
        )


def read_header(frame: Buffer) -> Header:
    """The header of a frame; FrameError unless it is of this format and a known kind."""
    if len(frame) < HEADER_BYTES:
        raise FrameError(f"a frame of {len(frame)} bytes")
    kind, flags, sender, round_, epoch, version = HEADER.unpack_from(frame)
    if flags & 0xF0 != FORMAT:
        raise FrameError(f"frame format {flags >> 4}, this side speaks {FORMAT >> 4}")
    known = _KINDS.get(kind)
    if known is None:
        raise FrameError(f"frame kind {kind}")
    return Header(known, flags & 0x0F, sender, round_, epoch, version)


def short_id(epoch_id: bytes) -> int:
    """The start of an epoch's id, as every header carries it."""
    return int.from_bytes(epoch_id[:2])
