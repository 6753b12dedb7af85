"""All sinks of a run: one that fails is taken off, the others go on."""

import contextlib
import logging

from headtail_device.delivery import Finished
from headtail_device.sink.base import Sink, SinkError
from headtail_fabric.logs import fields

log = logging.getLogger(__name__)


class SinkBoard:
    """Hands each frame to each sink that still works; `failures` are those of the others."""

    def __init__(self) -> None:
        self._working: list[Sink] = []
        self._closed: list[Sink] = []
        self.failures: list[SinkError] = []

    def __repr__(self) -> str:
        return f"<SinkBoard {list(self.paths)} failures={len(self.failures)}>"

    @property
    def paths(self) -> tuple[str, ...]:
        """Where the outputs lie that have not failed."""
        return tuple(sink.path for sink in (*self._closed, *self._working))

    def add(self, sink: Sink) -> None:
        """From now on it gets each frame."""
        self._working.append(sink)

    def write(self, finished: Finished) -> None:
        """Never raises for a sink that fails: it is closed, told in the log and kept in mind."""
        for sink in tuple(self._working):
            try:
                sink.write(finished)
            except SinkError as error:
                self._report(error)
                self._working.remove(sink)
                with contextlib.suppress(SinkError):
                    sink.close()

    def close(self) -> None:
        """Close every sink; failures are kept in mind."""
        while self._working:
            sink = self._working.pop(0)
            try:
                sink.close()
            except SinkError as error:
                self._report(error)
            else:
                self._closed.append(sink)

    def _report(self, error: SinkError) -> None:
        self.failures.append(error)
        log.error("output failed", extra=fields(error=error.message))
