"""Bytes as they come, from whatever gives them."""

import os
import select
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from headtail_device.source.errors import SourceError

LOOK_UP_S: Final = 0.25
"""How long a read may wait, and so how long a closed source takes to notice."""
_PIECE: Final = 64 * 1024


class ByteStream(Protocol):
    """Bytes as they come."""

    def read(self) -> bytes | None:
        """What is there, waiting for it no longer than `LOOK_UP_S`; None when nothing came, b"" at
        the end. Raises OSError."""
        ...

    def close(self) -> None: ...


def pieces(stream: ByteStream, *, name: str, closed: Callable[[], bool]) -> Iterator[bytes]:
    """What a stream gives until its end, or until it is closed. Raises SourceError."""
    while not closed():
        try:
            piece = stream.read()
        except OSError as error:
            raise SourceError(f"{name}: {error.strerror or error}", source=name) from None
        if piece is None:
            continue
        if not piece:
            return
        yield piece


class DescriptorStream:
    """An open file descriptor: standard input, a pipe, a file. `own`: it is closed at the end."""

    def __init__(self, descriptor: int, *, own: bool) -> None:
        self._descriptor = descriptor
        self._own = own

    def read(self) -> bytes | None:
        if not select.select([self._descriptor], [], [], LOOK_UP_S)[0]:
            return None
        return os.read(self._descriptor, _PIECE)

    def close(self) -> None:
        if self._own:
            self._own = False
            os.close(self._descriptor)
