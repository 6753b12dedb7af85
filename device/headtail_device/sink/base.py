"""Where finished frames go, and what can go wrong there."""

from typing import Protocol

from headtail_device.delivery import Finished
from headtail_fabric.errors import ResourceError


class SinkError(ResourceError):
    """An output could not be written, so it was closed; a run goes on with its other outputs.
    What was written before is kept. Free some space or correct the path, then run again."""


class Sink(Protocol):
    """Takes finished frames in order."""

    @property
    def path(self) -> str:
        """Where the output lies."""
        ...

    def write(self, finished: Finished) -> None:
        """Write one frame, so that it is safe from a crash of this process as far as the format
        allows. Raises SinkError, after which only `close` may be called."""
        ...

    def close(self) -> None:
        """Finish the output. Raises SinkError when it turns out not to be whole."""
        ...
