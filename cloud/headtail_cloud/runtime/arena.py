"""Large buffers between two processes of this machine: memory that both have mapped.

The sender owns an arena and writes a message's buffers into it, one behind the other; the receiver
maps it read-only and looks at them where they lie. An arena has no name (memfd), so that nothing is
left behind by a process that is killed. It holds the buffers of one message: they are good until
the sender writes the next one.
"""

import fcntl
import mmap
import os
from collections.abc import Sequence
from typing import Final

from headtail_fabric.errors import PeerError, ResourceError
from headtail_fabric.wire import Buffer

Place = tuple[int, int]
"""Offset and size, in bytes."""

MAX_ARENA_BYTES: Final = 2**31
_ALIGNMENT: Final = 64
_SEALS: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


class ArenaError(PeerError):
    """A worker process offered shared memory that is not as it should be. It is stopped, and its
    requests are tried elsewhere. Please report it with the log."""


class ArenaTooLargeError(ResourceError):
    """Tensors are too large to be handed to a worker process at once. Use smaller batches."""


class Arena:
    """The sender's end."""

    def __init__(self) -> None:
        self._map: mmap.mmap | None = None

    def __repr__(self) -> str:
        return f"<Arena {0 if self._map is None else len(self._map)} bytes>"

    def place(self, buffers: Sequence[Buffer]) -> tuple[list[Place], int | None]:
        """Write them down; where they lie, and a file descriptor if the arena is a new one: to be
        sent to the receiver, and closed. Raises ArenaTooLargeError, OSError."""
        places, end = _laid_out(buffers)
        fd = None
        if self._map is None or end > len(self._map):
            self._map, fd = _new(end)
        for buffer, (offset, size) in zip(buffers, places, strict=True):
            self._map[offset : offset + size] = memoryview(buffer).cast("B")
        return places, fd


class ArenaView:
    """The receiver's end: looks at the arena that it was given last."""

    def __init__(self) -> None:
        self._map: mmap.mmap | None = None

    def attach(self, fd: int) -> None:
        """Map another arena; closes the descriptor. Raises ArenaError for memory that its sender
        could cut off under us."""
        try:
            if fcntl.fcntl(fd, fcntl.F_GET_SEALS) & _SEALS != _SEALS:
                raise ArenaError("shared memory that is not sealed")
            self._map = mmap.mmap(fd, os.fstat(fd).st_size, prot=mmap.PROT_READ)
        except (OSError, ValueError) as error:
            raise ArenaError(f"shared memory that can't be mapped: {error}") from None
        finally:
            os.close(fd)

    def look(self, place: Place) -> memoryview:
        """A buffer of the last message. Raises ArenaError."""
        offset, size = place
        if self._map is None or min(offset, size) < 0 or offset + size > len(self._map):
            raise ArenaError(f"{size} bytes at {offset} of shared memory")
        return memoryview(self._map)[offset : offset + size]


def _laid_out(buffers: Sequence[Buffer]) -> tuple[list[Place], int]:
    places, end = [], 0
    for buffer in buffers:
        size = memoryview(buffer).nbytes
        places.append((end, size))
        end += -(-size // _ALIGNMENT) * _ALIGNMENT
    if end > MAX_ARENA_BYTES:
        raise ArenaTooLargeError(f"{end} bytes of tensors in one message", size_bytes=end)
    return places, end


def _new(least: int) -> tuple[mmap.mmap, int]:
    """Twice what is needed now, for the next message may need a little more."""
    size = -(-2 * least // mmap.PAGESIZE) * mmap.PAGESIZE
    fd = os.memfd_create("headtail-arena", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fd, size)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
        return mmap.mmap(fd, size), fd
    except BaseException:
        os.close(fd)
        raise
