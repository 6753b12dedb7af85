"""How far a long step has come."""

from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TransferSpeedColumn,
)


class ProgressSink(Protocol):
    """Hears of steps, one after the other."""

    def begin(self, step: str, *, total_bytes: int | None = None, done_bytes: int = 0) -> None:
        """A step begins; `done_bytes` of it were there before."""
        ...

    def advance(self, size_bytes: int) -> None:
        """More of the step is done."""
        ...


class Silence:
    """Shows nothing."""

    def begin(self, step: str, *, total_bytes: int | None = None, done_bytes: int = 0) -> None:
        pass

    def advance(self, size_bytes: int) -> None:
        pass


class Bars:
    """One bar a step on a terminal; a context manager, so that the cursor comes back.

    Nothing is shown before the first step.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeElapsedColumn(),
            console=console or Console(stderr=True),
        )
        self._current: TaskID | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._current is not None:
            if error is None:
                self._finish()
            self._progress.stop()

    def begin(self, step: str, *, total_bytes: int | None = None, done_bytes: int = 0) -> None:
        self._progress.start()
        self._finish()
        self._current = self._progress.add_task(step, total=total_bytes, completed=done_bytes)

    def advance(self, size_bytes: int) -> None:
        if self._current is not None:
            self._progress.advance(self._current, size_bytes)

    def _finish(self) -> None:
        if self._current is None:
            return
        task = self._progress.tasks[self._current]
        done = task.completed if task.total is None else task.total
        self._progress.update(self._current, total=done, completed=done)
