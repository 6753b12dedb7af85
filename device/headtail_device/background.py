"""An output that draws and encodes, in a thread of its own."""

import logging
import queue
import threading
from typing import Final

from headtail_device.delivery import Finished
from headtail_device.sink.base import Sink, SinkError
from headtail_fabric.errors import LocalError

log = logging.getLogger(__name__)

_WAITING: Final = 8


class OutputBrokenError(SinkError, LocalError):
    """An output broke in a way that it should not; it was closed, and the run goes on with the
    others. Please report this bug, with the log."""


class BackgroundSink:
    """Writes to `sink` while the next frame is computed. At most 8 frames wait, then `write` does:
    a frame's picture is large, and none is left out.

    What goes wrong is raised by the next `write`, or by `close`. For outputs that are whole only
    once they are closed: a crash loses the frames that wait.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._waiting: queue.Queue[Finished | None] = queue.Queue(maxsize=_WAITING)
        self._failure: SinkError | None = None
        self._thread = threading.Thread(target=self._work, name="output", daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        return f"<BackgroundSink {self.path} waiting={self._waiting.qsize()}>"

    @property
    def path(self) -> str:
        return self._sink.path

    def write(self, finished: Finished) -> None:
        if self._failure is not None:
            raise self._failure
        self._waiting.put(finished)

    def close(self) -> None:
        """After everything that waits has been written."""
        self._waiting.put(None)
        self._thread.join()
        self._sink.close()
        if self._failure is not None:
            raise self._failure

    def _work(self) -> None:
        while (finished := self._waiting.get()) is not None:
            if self._failure is None:
                self._write(finished)

    def _write(self, finished: Finished) -> None:
        try:
            self._sink.write(finished)
        except SinkError as error:
            self._failure = error
        except Exception as error:  # the thread's border: else `write` would wait for ever
            log.exception("an output failed")
            text = f"{self._sink.path}: {type(error).__name__}: {error}"
            self._failure = OutputBrokenError(text, path=self._sink.path)
