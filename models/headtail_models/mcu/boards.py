"""What the boards have to offer a head.

Memory is what MicroPython leaves for Python after its own start, flash what its file system has:
both estimates, to be checked with `gc.mem_free()` and `os.statvfs("/")` on the board at hand.
Cycles per instruction relate to Cortex-M3 instructions as counted by `costs`; the figure for RP2040
comes from an emulated run, the others are estimates. No number here was measured on silicon.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

KIB: Final = 1024


class LinkKind(Enum):
    """How a node speaks to its gateway, as far as memory goes."""

    SERIAL = "serial"
    """A cable, not sealed."""
    SEALED = "sealed"
    """Packets under a pre-shared key, over UDP, TCP or a serial line."""
    ZMTP = "zmtp"
    """ZeroMQ without encryption, or with a password."""
    CURVE = "curve"


RESERVED_BYTES: Final[Mapping[LinkKind, int]] = {
    LinkKind.SERIAL: 95 * KIB,
    LinkKind.SEALED: 102 * KIB,
    LinkKind.ZMTP: 99 * KIB,
    LinkKind.CURVE: 108 * KIB,
}
"""Heap that a node takes besides its head and its front end: the firmware's modules as .mpy files,
the link while it talks, records on their way. Counted on an emulated Cortex-M3, the smallest heap
in which the node's conversation went well (`tests/firmware/test_firmware_memory.py`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """`heap_bytes` and `flash_bytes` as the module says."""

    name: str
    core: str
    mhz: int
    cycles_per_instruction: float
    heap_bytes: int
    flash_bytes: int

    def head_bytes(self, link: LinkKind) -> int:
        """Heap that a head may take: its blob, its arena, its front end."""
        return max(0, self.heap_bytes - RESERVED_BYTES[link])

    @property
    def has_thumb(self) -> bool:
        """Whether the kernels in assembler run here."""
        return self.core.startswith("Cortex")

    def milliseconds(self, instructions: float) -> float:
        """An estimate, never a measurement."""
        return instructions * self.cycles_per_instruction / self.mhz / 1000


BOARDS: Final = {
    board.name: board
    for board in (
        Board(
            name="rp2040",
            core="Cortex-M0+",
            mhz=125,
            cycles_per_instruction=1.69,
            heap_bytes=190 * KIB,
            flash_bytes=848 * KIB,
        ),
        Board(
            name="rp2350",
            core="Cortex-M33",
            mhz=150,
            cycles_per_instruction=1.05,
            heap_bytes=440 * KIB,
            flash_bytes=2560 * KIB,
        ),
        Board(
            name="esp32-s3",
            core="Xtensa LX7",
            mhz=240,
            cycles_per_instruction=1.4,
            heap_bytes=200 * KIB,
            flash_bytes=6144 * KIB,
        ),
        Board(
            name="stm32f4",
            core="Cortex-M4",
            mhz=168,
            cycles_per_instruction=1.2,
            heap_bytes=120 * KIB,
            flash_bytes=96 * KIB,
        ),
        Board(
            name="stm32f7",
            core="Cortex-M7",
            mhz=216,
            cycles_per_instruction=1.0,
            heap_bytes=240 * KIB,
            flash_bytes=96 * KIB,
        ),
        Board(
            name="nrf52840",
            core="Cortex-M4",
            mhz=64,
            cycles_per_instruction=1.3,
            heap_bytes=140 * KIB,
            flash_bytes=256 * KIB,
        ),
    )
}
