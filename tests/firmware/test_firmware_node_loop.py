"""The node's loop on a clock that is moved by hand, on real MicroPython."""

from pathlib import Path

import pytest

from mcu_nodes import compile_firmware
from micropython_runner import run

pytestmark = pytest.mark.system


def test_the_loop(tmp_path: Path) -> None:
    firmware = compile_firmware(tmp_path / "firmware")
    assert run("node_loop.py", tmp_path, modules=firmware) == "passed\n"
