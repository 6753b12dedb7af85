"""The node's messages: frozen bytes, on MicroPython and in plain Python."""

import runpy
import sys
from pathlib import Path

import pytest

from micropython_runner import SCRIPTS, run

VECTORS = Path(__file__).parents[1] / "vectors" / "mcu-node-v1.json"


@pytest.mark.system
def test_on_micropython() -> None:
    assert run("message_vectors.py", VECTORS) == "passed\n"


def test_in_plain_python(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["message_vectors.py", str(VECTORS)])
    runpy.run_path(str(SCRIPTS / "message_vectors.py"))
    assert capsys.readouterr().out == "passed\n"
