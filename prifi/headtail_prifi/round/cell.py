"""A cell: what the owner of a sub-slot sends in one round, sealed under a key of its own.

    opened    kind u8 | backlog u8 | size u16 | body, padded with zeros
    sealed    AES-128-GCM(key, nonce 0, opened): the payload; the key travels in the key lane

The key is random and used once. Sealing makes the payload look random, which blame needs (a
disruptor can't choose to flip ones only), and shows the relay that a cell was disrupted.
"""

import hashlib
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from struct import Struct
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headtail_prifi.core.errors import FrameError
from headtail_prifi.core.geometry import CELL_HEADER_BYTES, LANE_BYTES, Geometry
from headtail_prifi.core.header import Buffer
from headtail_prifi.core.messages import ECHO_BYTES
from headtail_prifi.crypto.cipher import NONCE_BYTES, PadCipher

Bytes = NDArray[np.uint8]

KEY_BYTES: Final = LANE_BYTES
MAX_BACKLOG: Final = 255

_NONCE: Final = bytes(NONCE_BYTES)
_HEADER: Final = Struct(">BBH")
assert _HEADER.size == CELL_HEADER_BYTES


class CellKind(IntEnum):
    """What the body of a cell is: bytes for the exit, or an accusation for the relay."""

    DATA = 1
    ACCUSATION = 2


_KINDS: Final = frozenset(CellKind)


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """A sealed cell, ready to be XOR-ed into an upstream frame; all zeros when there is none."""

    payload: Bytes
    key: Bytes

    @property
    def echo(self) -> bytes:
        """What the relay reports of the round when nobody disturbed this cell."""
        return echo(self.payload.data, self.key.data)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedCell:
    """What the relay reads in a cell; `backlog` more of them wait behind it."""

    kind: CellKind
    backlog: int
    body: bytes


@lru_cache(maxsize=8)
def silence(geometry: Geometry) -> Cell:
    """What everybody but the owner adds; one read-only value for all clients of a process."""
    payload, key = bytes(geometry.cell_bytes), bytes(KEY_BYTES)
    return Cell(np.frombuffer(payload, np.uint8), np.frombuffer(key, np.uint8))


def seal_cell(
    cipher: PadCipher, geometry: Geometry, *, kind: CellKind, body: bytes, backlog: int, key: bytes
) -> Cell:
    """The cell of a body of at most `Geometry.body_bytes`."""
    if len(body) > geometry.body_bytes:
        raise ValueError(f"a body of {len(body)} bytes, a cell holds {geometry.body_bytes}")
    opened = _HEADER.pack(kind, min(backlog, MAX_BACKLOG), len(body)) + body
    payload = cipher.seal(
        key=key, nonce=_NONCE, plaintext=opened.ljust(geometry.plain_bytes, b"\0")
    )
    return Cell(np.frombuffer(payload, np.uint8), np.frombuffer(key, np.uint8))


def open_cell(cipher: PadCipher, payload: bytes, key: bytes) -> OpenedCell:
    """Raises SealError when payload or key was disturbed, FrameError when the owner wrote
    something that is no cell."""
    opened = cipher.open(key=key, nonce=_NONCE, sealed=payload)
    kind, backlog, size = _HEADER.unpack_from(opened)
    body = opened[CELL_HEADER_BYTES : CELL_HEADER_BYTES + size]
    if kind not in _KINDS or len(body) != size:
        raise FrameError(f"a cell of kind {kind} and {size} bytes")
    return OpenedCell(kind=CellKind(kind), backlog=backlog, body=body)


def echo(payload: Buffer, key: Buffer) -> bytes:
    """16 bytes by which an owner sees whether its cell arrived as it was sent."""
    digest = hashlib.sha256(payload)
    digest.update(key)
    return digest.digest()[:ECHO_BYTES]
