"""The line between an edge and one of its worker processes: a pipe, and shared memory beside it.

    pipe      one header a message (msgpack), then each small buffer as it is
    memory    large buffers, one behind the other; a file without a name that both ends map

Each direction has its own memory, and one message at a time is on its way: the receiver is done
with the buffers of a message before it sends the next.
"""

import mmap
import os
import tempfile
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final, Generic, TypeVar

import msgspec

from headtail_fabric.wire import Buffer

LARGE_BYTES: Final = 256 * 1024
"""From this size on a buffer goes through shared memory."""

_ALIGNED: Final = 64
_INLINE: Final = -1

MessageT = TypeVar("MessageT", bound=msgspec.Struct)


class _Header(msgspec.Struct, array_like=True):
    message: msgspec.Raw
    spans: list[tuple[int, int]]
    """Offset in the memory, or -1, and size of each buffer."""


class Arena:
    """Shared memory that grows as it is needed."""

    def __init__(self, fd: int) -> None:
        """Takes the file over."""
        self._fd = fd
        self._map: mmap.mmap | None = None

    @classmethod
    def create(cls) -> "Arena":
        """New memory. Raises OSError."""
        if hasattr(os, "memfd_create"):
            return cls(os.memfd_create("headtail-worker"))
        shm = Path("/dev/shm")  # noqa: S108 - the file has no name there
        with tempfile.TemporaryFile(dir=shm if shm.is_dir() else None) as file:
            return cls(os.dup(file.fileno()))

    def fileno(self) -> int:
        return self._fd

    def reserve(self, size: int) -> None:
        """Make room for `size` bytes, for both ends. Raises OSError."""
        if size > os.fstat(self._fd).st_size:
            os.ftruncate(self._fd, size)

    def view(self, offset: int, size: int) -> memoryview:
        """A part of what there is room for; views of a smaller memory stay good."""
        if self._map is None or len(self._map) < offset + size:
            self._map = mmap.mmap(self._fd, os.fstat(self._fd).st_size)
        return memoryview(self._map)[offset : offset + size]

    def close(self) -> None:
        """Views stay good. Closing it again does nothing."""
        self._map = None
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Channel(Generic[MessageT]):
    """One end of the line; takes pipe and memories over. `receives` is what comes in here."""

    def __init__(
        self, pipe: Connection, *, out: Arena, into: Arena, receives: type[MessageT]
    ) -> None:
        self._pipe = pipe
        self._out = out
        self._in = into
        self._encoder = msgspec.msgpack.Encoder()
        self._headers = msgspec.msgpack.Decoder(_Header)
        self._messages = msgspec.msgpack.Decoder(receives)

    def send(self, message: msgspec.Struct, buffers: Sequence[Buffer]) -> None:
        """Raises OSError when the other end is gone, or there is no memory."""
        views = [memoryview(buffer).cast("B") for buffer in buffers]
        spans, end = [], 0
        for view in views:
            if view.nbytes < LARGE_BYTES:
                spans.append((_INLINE, view.nbytes))
            else:
                spans.append((end, view.nbytes))
                end += -(-view.nbytes // _ALIGNED) * _ALIGNED
        self._out.reserve(end)
        for view, (offset, size) in zip(views, spans, strict=True):
            if offset != _INLINE:
                self._out.view(offset, size)[:] = view
        header = _Header(message=msgspec.Raw(self._encoder.encode(message)), spans=spans)
        self._pipe.send_bytes(self._encoder.encode(header))
        for view, (offset, _) in zip(views, spans, strict=True):
            if offset == _INLINE:
                self._pipe.send_bytes(view)

    def receive(self, timeout_s: float | None) -> tuple[MessageT, list[Buffer]] | None:
        """The next message, with buffers that are good until the next `send`; None when it did not
        begin to come in time. Raises EOFError or OSError when the other end is gone."""
        if not self._pipe.poll(timeout_s):
            return None
        header = self._headers.decode(self._pipe.recv_bytes())
        buffers: list[Buffer] = [
            self._pipe.recv_bytes() if offset == _INLINE else self._in.view(offset, size)
            for offset, size in header.spans
        ]
        return self._messages.decode(header.message), buffers

    def close(self) -> None:
        self._pipe.close()
        self._out.close()
        self._in.close()
