"""What compiles the entropy coder's kernels, with real and with broken compilers."""

import ctypes
from pathlib import Path

import pytest

from hatch_build import LIBRARY, SOURCE, compiled

ROOT = Path(__file__).parents[2]


def test_the_kernels_are_compiled(tmp_path: Path) -> None:
    library = tmp_path / Path(LIBRARY).name
    assert compiled(ROOT / SOURCE, library) == ""
    assert ctypes.CDLL(str(library)).headtail_rans_version() >= 1
    assert [found.name for found in tmp_path.iterdir()] == [library.name]


def test_without_a_compiler_it_is_said_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    assert "no-such-compiler" in compiled(ROOT / SOURCE, tmp_path / "library.so")
    assert not list(tmp_path.iterdir())


def test_what_the_compiler_says_is_passed_on(tmp_path: Path) -> None:
    source = tmp_path / "broken.c"
    source.write_text("this is no C\n")
    library = tmp_path / "library.so"
    library.write_bytes(b"the one before")
    assert "broken.c" in compiled(source, library)
    assert library.read_bytes() == b"the one before", "whoever has loaded it may go on"
