"""What a Ray actor is made of: a worker's engine, asked by calls. It runs in the actor's process,
and needs nothing of Ray itself."""

import os
import threading
from collections.abc import Sequence
from typing import Final

import numpy as np

from headtail_cloud.runtime.worker import EngineHost
from headtail_fabric import logs
from headtail_fabric.codec.base import Array
from headtail_fabric.wire import Buffer

LIFE: Final = "life"
"""The concurrency group of `remain`: the engine's own thread never waits for it."""

Said = tuple[bytes, list[Array]]
"""A message, and its buffers as arrays of bytes, which Ray takes through its object store uncopied
where they are large."""


class EngineActor:
    """One engine. Its class must be importable where the actor runs."""

    def __init__(self) -> None:
        logs.configure()
        self._host = EngineHost()

    def __repr__(self) -> str:
        return f"<EngineActor {self._host!r}>"

    def pid(self) -> int:
        """Of the actor's process."""
        return os.getpid()

    def ask(self, message: bytes, arrays: Sequence[Array]) -> Said:
        """What a worker would answer. Raises BadMessageError."""
        packed = self._host.answer(message, as_buffers(arrays))
        return packed.message, as_arrays(packed.buffers)

    def remain(self) -> None:
        """Never returns: who waits for it learns of the actor's death."""
        threading.Event().wait()


def as_arrays(buffers: Sequence[Buffer]) -> list[Array]:
    """Their bytes, uncopied."""
    return [np.frombuffer(buffer, np.uint8) for buffer in buffers]


def as_buffers(arrays: Sequence[Array]) -> list[Buffer]:
    """The reverse, uncopied."""
    return [array.data for array in arrays]
