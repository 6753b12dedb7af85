"""Pictures that come into a folder while it is watched."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from headtail_device.source.closing import ClosingSource
from headtail_device.source.errors import SourceError
from headtail_device.source.frame import Captured
from headtail_device.source.pictures import SUFFIXES, read_picture
from headtail_device.source.quiet import silence_opencv
from headtail_fabric.clock import Clock

_LOOK_EVERY_S: Final = 0.5


class WatchedFolderSource(ClosingSource):
    """The pictures of a folder, those that are there and those that come, each once, by time of
    change; one that is changed later is another.

    A file is read once it looked the same twice, so that none is read half written. Pictures wait
    for their turn: nothing is dropped because others come. What goes away unread was never there.
    """

    def __init__(
        self,
        folder: Path,
        *,
        deadline_s: float,
        clock: Clock,
        wait: Callable[[float], object] | None = None,
    ) -> None:
        super().__init__(deadline_s=deadline_s, clock=clock, wait=wait)
        silence_opencv()
        self._folder = folder
        self._read: dict[Path, _Look] = {}

    @property
    def name(self) -> str:
        return self._folder.resolve().name

    def __iter__(self) -> Iterator[Captured]:
        index = 0
        before = self._look()
        while not self._closing.is_set():
            self._wait(_LOOK_EVERY_S)
            now = self._look()
            # What is gone is forgotten: the memory is no larger than the folder.
            self._read = {file: seen for file, seen in self._read.items() if file in now}
            settled = [file for file, seen in now.items() if before.get(file) == seen]
            fresh = [file for file in settled if self._read.get(file) != now[file]]
            for file in sorted(fresh, key=lambda one: (now[one], one)):
                if self._closing.is_set():
                    return
                self._read[file] = now[file]
                yield read_picture(
                    file, index=index, deadline_s=self._deadline_s, clock=self._clock
                )
                index += 1
            before = now

    def _look(self) -> "dict[Path, _Look]":
        seen = {}
        try:
            for file in self._folder.iterdir():
                if file.suffix.lower() not in SUFFIXES:
                    continue
                try:
                    status = file.stat()
                except FileNotFoundError:
                    continue
                seen[file] = (status.st_mtime_ns, status.st_size)
        except OSError as error:
            raise SourceError(
                f"{self._folder}: {error.strerror}", path=str(self._folder)
            ) from error
        return seen


_Look = tuple[int, int]
"""When a file was changed, and its size."""
