"""An edge as a child process, for a run that brings its own."""

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

from headtail_fabric.errors import ResourceError

_READY_S: Final = 60.0
_STOP_S: Final = 10.0
_LOG_TAIL_BYTES: Final = 2000


class LocalEdgeError(ResourceError):
    """The edge that this run wanted to start beside itself did not come up. Its log, named in the
    message, says why; or run `headtail edge serve` by hand and name it with `--edge`."""


class LocalEdge:
    """`headtail edge serve` on a free port of this machine; its log goes to `log`.

    The child ends when its standard input does, so it can't outlive a parent that is killed.
    """

    def __init__(self, bundle: Path, *, log: Path, options: Sequence[str] = ()) -> None:
        self._log = log
        self._bundle = bundle
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self.endpoint = ""

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "headtail", "edge", "serve", "--stop-on-eof"]
        command += ["--bind", "tcp://127.0.0.1:0", "--bundle", str(self._bundle), *self._options]
        try:
            log = self._log.open("wb")
        except OSError as error:
            raise LocalEdgeError(f"can't write {self._log}: {error.strerror}") from None
        with log:
            # A session of its own, so that Ctrl-C reaches the run alone, which ends it in order.
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        try:
            self.endpoint = self._wait_until_ready(self._process)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """The child's process id; 0 before it is started."""
        return self._process.pid if self._process is not None else 0

    def stop(self) -> int | None:
        """End the child in order, or by force when that takes too long; its exit status."""
        process = self._process
        if process is None:
            return None
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
        try:
            status = process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            status = process.wait()
        if process.stdout is not None:
            process.stdout.close()
        return status

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> str:
        assert process.stdout is not None, "opened as a pipe"
        line = _read_line(process.stdout, _READY_S)
        try:
            ready = json.loads(line)
            return str(ready["endpoint"])
        except (ValueError, KeyError, TypeError):
            status = process.poll()
            fate = "is silent" if status is None else f"ended with status {status}"
            raise LocalEdgeError(f"the edge {fate}; {self._log} ends: {self._log_tail()}") from None

    def _log_tail(self) -> str:
        text = self._log.read_bytes()[-_LOG_TAIL_BYTES:].decode(errors="replace").strip()
        return text.splitlines()[-1] if text else "(empty)"


def _read_line(stream: IO[bytes], timeout_s: float) -> bytes:
    """One line, or what came of it before the end or the time limit."""
    until, line = time.monotonic() + timeout_s, b""
    while not line.endswith(b"\n"):
        wait_s = until - time.monotonic()
        if wait_s <= 0 or not select.select([stream], [], [], wait_s)[0]:
            break
        chunk = os.read(stream.fileno(), 4096)
        if not chunk:
            break
        line += chunk
    return line
