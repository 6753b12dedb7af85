"""The sizes of an epoch: one frozen value from which every length on the wire derives.

A client's upstream frame and the keystream that a client and a guard share per round:

    upstream   [ payload of sub-slot 0 .. S-1 | key lane 0 .. S-1 | reservation lane 0 .. R-1 ]
                 cell_bytes each                16 B each            16 B each
    stream     [ pads, as long as all payloads | first half of S+R lanes | second half of S+R ]
                                                 16 B each                 16 B each

The last two parts of the stream are the lock's one-time keys (`round/lock.py`); they are bytes of
the keystream that no pad uses, which is what keeps a lane from betraying its owner.
"""

from dataclasses import dataclass
from functools import cached_property
from struct import Struct
from typing import Final

from headtail_prifi.core.errors import GeometryError
from headtail_prifi.crypto.cipher import BLOCK_BYTES, TAG_BYTES

LANE_BYTES: Final = 16
LANE_BITS: Final = 8 * LANE_BYTES
CELL_HEADER_BYTES: Final = 4
MIN_CELL_BYTES: Final = 128
MAX_CELL_BYTES: Final = 64 * 1024
MAX_CLIENTS: Final = 2048
MAX_SUB_SLOTS: Final = 64
MAX_WINDOW: Final = 64
MAX_DOWN_BYTES: Final = 256 * 1024
MAX_UPSTREAM_BYTES: Final = 1024 * 1024

_PARAMETERS: Final = Struct(">4sIHHI")
_MAGIC: Final = b"HTG1"


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """Raises GeometryError when a value is out of its limits.

    `clients` counts the slots of the epoch, `sub_slots` the cells in one round, `window` the
    rounds that may be open at a time, `down_bytes` bounds the data of one downstream frame. What
    derives from them is computed once (so there are no slots): rounds ask for it all the time.
    """

    clients: int
    cell_bytes: int = 1024
    sub_slots: int = 1
    window: int = 2
    down_bytes: int = 8192

    def __post_init__(self) -> None:
        for name, low, high in (
            ("clients", 1, MAX_CLIENTS),
            ("cell_bytes", MIN_CELL_BYTES, MAX_CELL_BYTES),
            ("sub_slots", 1, MAX_SUB_SLOTS),
            ("window", 1, MAX_WINDOW),
            ("down_bytes", MIN_CELL_BYTES, MAX_DOWN_BYTES),
        ):
            value = getattr(self, name)
            if not low <= value <= high:
                raise GeometryError(f"{name} is {value}, the limits are {low} to {high}")
        if self.upstream_bytes > MAX_UPSTREAM_BYTES:
            raise GeometryError(
                f"{self.sub_slots} cells of {self.cell_bytes} bytes exceed {MAX_UPSTREAM_BYTES}"
            )

    def encode(self) -> bytes:
        """The parameters that a set-up agrees on (`Epoch.parameters`), without `clients`."""
        return _PARAMETERS.pack(
            _MAGIC, self.cell_bytes, self.sub_slots, self.window, self.down_bytes
        )

    @classmethod
    def decode(cls, parameters: bytes, *, clients: int) -> "Geometry":
        """The geometry of an epoch; GeometryError unless `encode` made the parameters."""
        if len(parameters) != _PARAMETERS.size or not parameters.startswith(_MAGIC):
            raise GeometryError("the epoch's parameters are not those of a DC-net's rounds")
        _, cell_bytes, sub_slots, window, down_bytes = _PARAMETERS.unpack(parameters)
        return cls(
            clients=clients,
            cell_bytes=cell_bytes,
            sub_slots=sub_slots,
            window=window,
            down_bytes=down_bytes,
        )

    @cached_property
    def plain_bytes(self) -> int:
        """Bytes of a cell once opened: its header and its body, padding included."""
        return self.cell_bytes - TAG_BYTES

    @cached_property
    def body_bytes(self) -> int:
        """Bytes that one cell can carry for the application."""
        return self.plain_bytes - CELL_HEADER_BYTES

    @cached_property
    def payload_bytes(self) -> int:
        """Bytes of all sub-slots of one round."""
        return self.sub_slots * self.cell_bytes

    @cached_property
    def reservation_lanes(self) -> int:
        """R: lanes of 128 reservation bits, one bit a slot."""
        return -(-self.clients // LANE_BITS)

    @cached_property
    def lanes(self) -> int:
        """S + R: key lanes, then reservation lanes."""
        return self.sub_slots + self.reservation_lanes

    @cached_property
    def lane_bytes(self) -> int:
        """Bytes of all lanes in an upstream frame."""
        return self.lanes * LANE_BYTES

    @cached_property
    def reservation_start(self) -> int:
        """Where the reservation lanes begin in an upstream frame."""
        return self.payload_bytes + self.sub_slots * LANE_BYTES

    @cached_property
    def upstream_bytes(self) -> int:
        """Bytes that a client sends in each round."""
        return self.payload_bytes + self.lane_bytes

    @cached_property
    def stream_bytes(self) -> int:
        """Bytes of keystream per pair and round, and of what a guard sends for a round."""
        return self.payload_bytes + 2 * self.lane_bytes

    @cached_property
    def stride_blocks(self) -> int:
        """Cipher blocks from one round's keystream to the next."""
        return -(-self.stream_bytes // BLOCK_BYTES)

    def key_lane_start(self, sub_slot: int) -> int:
        """Where the key lane of a sub-slot begins in an upstream frame."""
        return self.payload_bytes + sub_slot * LANE_BYTES

    def reservation_bit(self, slot: int) -> int:
        """The bit of an upstream frame with which `slot` reserves."""
        return 8 * self.reservation_start + slot
