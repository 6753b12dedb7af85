"""The ring log, cut off at every byte, and its writer killed."""

import importlib
import runpy
import sys
from pathlib import Path

import pytest

from micropython_runner import SCRIPTS, run, start


@pytest.mark.system
def test_on_micropython(tmp_path: Path) -> None:
    assert run("ring_log.py", tmp_path / "log") == "passed\n"


def test_on_cpython(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["ring_log.py", str(tmp_path / "log")])
    runpy.run_path(str(SCRIPTS / "ring_log.py"))
    assert capsys.readouterr().out == "passed\n"


@pytest.mark.system
@pytest.mark.parametrize("lines", [1, 12, 35])
def test_what_was_safe_survives_a_kill(tmp_path: Path, lines: int) -> None:
    path = tmp_path / "log"
    with start("ring_writer.py", path) as process:
        assert process.stdout is not None
        said = [process.stdout.readline().split() for _ in range(lines)]
        process.kill()
        said += [line.split() for line in process.stdout.read().splitlines()]
    safe = max((int(words[0]) for words in said if len(words) == 1), default=0)
    acknowledged = max((int(words[1]) for words in said if len(words) == 2), default=0)
    log = importlib.import_module("headtail_mcu.ring").RingLog(str(path), 64, 64)
    try:
        assert log.acked >= acknowledged
        assert log.lost == 0
        left = [sequence for sequence, _, _ in log.unacknowledged(100)]
        assert left[: safe - log.acked] == list(range(log.acked + 1, safe + 1))
    finally:
        log.close()
