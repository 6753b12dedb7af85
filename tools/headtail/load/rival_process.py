"""A rival's server as a child process."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

_READY_S: Final = 90.0
_STOP_S: Final = 10.0


class RivalProcess:
    """`python -m headtail.load.rivals.NAME` on a free port; a context manager. Its log goes to
    `log`. Raises RuntimeError when it does not come up."""

    def __init__(self, name: str, *, ready_path: str, log: Path, options: Sequence[str]) -> None:
        self._name = name
        self._ready_path = ready_path
        self._log = log
        self._options = options
        self.port = _free_port()
        self.pid = 0

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", f"headtail.load.rivals.{self._name}", *self._options]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                [*command, "--port", str(self.port)],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.pid = self._process.pid
        try:
            self._wait_until_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        # The whole group: workers of some servers outlive their parent.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_STOP_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()

    def _wait_until_ready(self) -> None:
        until = time.monotonic() + _READY_S
        while time.monotonic() < until and self._process.poll() is None:
            address = f"http://127.0.0.1:{self.port}{self._ready_path}"
            try:
                with urllib.request.urlopen(address, timeout=5):
                    return
            except OSError:
                time.sleep(0.1)
        tail = self._log.read_bytes()[-500:].decode(errors="replace")
        raise RuntimeError(f"{self._name} did not come up; its log ends: {tail}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
