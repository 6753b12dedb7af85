"""What viper must not be given, on any board (see `viper_store.py`)."""

import re
from pathlib import Path

import pytest

from micropython_runner import FIRMWARE, run, tool

VIPER = sorted((FIRMWARE / "headtail_mcu").glob("*_viper.py"))
_COMPUTED_STORE = re.compile(r"ptr(?:16|32)\([^)]*\)\[(?!\d+\])[^]]*\]\s*[-+|&^]?=(?!=)")
_UNARY_MINUS = re.compile(r"(?:[=(,]|return)\s*-[a-z_]")


def viper_lines(path: Path) -> list[str]:
    return [line.partition("#")[0] for line in path.read_text().splitlines()]


@pytest.mark.parametrize("path", VIPER, ids=lambda path: path.stem)
def test_no_kernel_has_what_some_releases_miscompile(path: Path) -> None:
    for line in viper_lines(path):
        assert not _COMPUTED_STORE.search(line), line
        assert not _UNARY_MINUS.search(line), line


def test_the_rule_sees_what_it_is_for() -> None:
    assert _COMPUTED_STORE.search("    ptr32(x)[i] = 3")
    assert _COMPUTED_STORE.search("    ptr16(x)[i] += 3")
    assert not _COMPUTED_STORE.search("    ptr32(x)[0] = ptr32(w)[i]")
    assert _UNARY_MINUS.search("    y = -x")


@pytest.mark.system
def test_stores_to_computed_places_are_right_here(tmp_path: Path) -> None:
    script = tmp_path / "try.py"
    script.write_text("import viper_store\nassert viper_store.right()\nprint('right')\n")
    tool("micropython")
    assert run(str(script), modules=Path(__file__).parent / "scripts") == "right\n"
