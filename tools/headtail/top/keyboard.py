"""Waiting, and meanwhile for a key."""

import os
import select
import sys
import termios
import time
import tty
from types import TracebackType
from typing import Any, Final, Self

_CHUNK: Final = 64


class Keyboard:
    """Keys as they are pressed, without Enter, where standard input is a terminal."""

    def __init__(self) -> None:
        self._descriptor = sys.stdin.fileno() if sys.stdin.isatty() else None
        self._before: list[Any] | None = None

    def __enter__(self) -> Self:
        if self._descriptor is not None:
            self._before = termios.tcgetattr(self._descriptor)
            tty.setcbreak(self._descriptor)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._descriptor is not None and self._before is not None:
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._before)

    def wait(self, seconds: float) -> str:
        """The keys pressed within that time, "" when none was; returns at the first."""
        if self._descriptor is None:
            time.sleep(seconds)
            return ""
        if not select.select([self._descriptor], [], [], seconds)[0]:
            return ""
        return os.read(self._descriptor, _CHUNK).decode("utf-8", "replace")
