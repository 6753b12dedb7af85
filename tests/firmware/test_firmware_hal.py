"""Boards behind one interface."""

from pathlib import Path

import pytest

from micropython_runner import run

pytestmark = pytest.mark.system


def test_boards(tmp_path: Path) -> None:
    assert run("boards.py", tmp_path / "kept") == "passed\n"
