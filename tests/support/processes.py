"""Real `headtail` processes, for the system tests."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import cv2
import numpy as np

PATIENCE_S = 60.0


class Headtail:
    """One `headtail` process; killed at the end of the block if it still runs."""

    def __init__(self, *words: str | Path, env: dict[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "headtail", *map(str, words)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **(env or {})},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()

    def kill(self) -> None:
        """SIGKILL: no chance to say goodbye."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def terminate(self) -> int:
        """SIGTERM; returns the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_S)

    def ready(self) -> dict[str, Any]:
        """The JSON line by which an edge says that it serves."""
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], PATIENCE_S)[0]:
            raise AssertionError("not ready in time")
        line = self.process.stdout.readline()
        assert line, self.errors()
        ready: dict[str, Any] = json.loads(line)
        assert ready["event"] == "ready"
        return ready

    def errors(self) -> str:
        """What it wrote to standard error; waits for its end."""
        assert self.process.stderr is not None
        return self.process.stderr.read().decode()


def free_port() -> int:
    """A TCP port of this machine that nobody has now."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Look a few times a second whether something outside has come about."""
    until = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until, f"{what} did not come about in {PATIENCE_S} s"
        time.sleep(0.05)


def records(path: Path) -> list[dict[str, Any]]:
    """The whole JSON lines of a file so far."""
    if not path.exists():
        return []
    text = path.read_text()
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def write_clip(path: Path, *, frames: int, rate_hz: float = 25.0) -> Path:
    """A small video of moving noise."""
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"mp4v"), rate_hz, (64, 48))
    assert writer.isOpened()
    draw = np.random.default_rng(7)
    picture = draw.integers(0, 255, (48, 64, 3), dtype=np.uint8)
    for _ in range(frames):
        picture = np.roll(picture, 1, axis=1)
        writer.write(picture)
    writer.release()
    return path
