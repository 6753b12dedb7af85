"""Bytes as they come, from whatever gives them."""

import os
import select
from collections.abc import Iterator
from typing import Final, Protocol

from headtail_device.source.closing import ClosingSource
from headtail_device.source.errors import SourceError
from headtail_fabric.clock import Clock

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


class StreamSource(ClosingSource):
    """A source whose frames are cut out of a stream of bytes, which it closes in the end.

    `live`: whether a slow reader must lose frames, because what is sensed goes on.
    """

    def __init__(
        self, stream: ByteStream, *, name: str, deadline_s: float, clock: Clock, live: bool
    ) -> None:
        super().__init__(deadline_s=deadline_s, clock=clock)
        self._stream = stream
        self._name = name
        self._live = live

    @property
    def name(self) -> str:
        return self._name

    @property
    def live(self) -> bool:
        return self._live

    def _pieces(self) -> Iterator[bytes]:
        """What the stream gives until its end, or until this is closed. Raises SourceError."""
        while not self._closing.is_set():
            try:
                piece = self._stream.read()
            except OSError as error:
                reason = error.strerror or str(error)
                raise SourceError(f"{self._name}: {reason}", source=self._name) from None
            if piece is None:
                continue
            if not piece:
                return
            yield piece

    def _release(self) -> None:
        self._stream.close()
